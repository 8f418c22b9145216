"""What a text asks of a vocabulary, before anything is trained on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lossleuth.reference.train.corpus import Corpus
from lossleuth.reference.train.data import document_spans, write_tokens
from lossleuth.reference.train.floors import Floors, loss_floors
from lossleuth.reference.train.tokenizer import build_tokenizer
from lossleuth.types.errors import BadInput

SIZES = {"char": (None,), "word": (None, 256, 1024, 4096, 16384), "bpe": (512, 1024, 4096, 16384)}


@dataclass(frozen=True)
class VocabularyRow:
    """One way to split the text."""

    tokenizer: str
    size: int
    tokens: int
    unknown_share: float
    floors: Floors


def analyze_vocabulary(corpus: Corpus) -> Iterator[VocabularyRow | BadInput]:
    """Try the tokenizers at several sizes; a size that the text cannot fill is left out.

    A tokenizer whose package is missing yields the refusal that says how to install it.

    >>> rows = list(analyze_vocabulary(Corpus(("abab " * 50,), "example")))
    >>> rows[0].tokenizer, rows[0].size, rows[0].tokens
    ('char', 5, 251)
    """
    with TemporaryDirectory() as folder:
        for kind, sizes in SIZES.items():
            for size in sizes:
                try:
                    yield _row(corpus, kind, size, Path(folder) / "tokens.bin")
                except BadInput as refusal:
                    if size is not None and "vocabulary of" in refusal.expected:
                        continue
                    yield refusal
                    break


def _row(corpus: Corpus, kind: str, size: int | None, path: Path) -> VocabularyRow:
    tokenizer = build_tokenizer(kind, corpus.documents, size)
    tokens = write_tokens(path, corpus.documents, tokenizer)
    spans = document_spans(tokens, tokenizer.end_of_text)
    predicted = tokens[1:]
    unknown = 0.0
    if tokenizer.unknown is not None:
        unknown = float((predicted == tokenizer.unknown).mean())
    floors = loss_floors(tokens, spans, tokenizer.size)
    return VocabularyRow(kind, tokenizer.size, len(predicted), unknown, floors)
