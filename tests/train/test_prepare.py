"""From documents to windows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from small import SETTINGS

from lossleuth.train.corpus import Corpus
from lossleuth.train.prepare import prepare
from lossleuth.train.tokenizer import build_tokenizer

TEXT = "the quick brown fox jumps over the lazy dog. "


def test_documents_are_split_and_every_token_is_on_one_side(tmp_path: Path) -> None:
    corpus = Corpus(tuple(TEXT * n for n in range(1, 9)), "example")
    tokenizer = build_tokenizer("char", corpus.documents, None)
    settings = replace(SETTINGS, validation_share=0.25)
    prepared = prepare(corpus, tokenizer, settings, tmp_path / "tokens.bin")
    targets = prepared.training.targets + prepared.validation.targets
    assert targets == len(prepared.tokens) - 1
    assert 0.1 < prepared.validation.targets / targets < 0.4
    # Every target but the closing mark of each held document stands for one byte.
    held_documents = sum(length < 16 for length in prepared.validation.lengths.tolist())
    assert prepared.validation_bytes == prepared.validation.targets - held_documents


def test_what_was_made_of_the_data_is_told(tmp_path: Path) -> None:
    corpus = Corpus((TEXT * 20,), "example")
    tokenizer = build_tokenizer("char", corpus.documents, None)
    overlapping = replace(SETTINGS, stride=4)
    sentences = " ".join(prepare(corpus, tokenizer, overlapping, tmp_path / "t").sentences)
    assert "1 documents, 900 characters" in sentences
    assert "each target in 3.9" in sentences
    assert "the end of the one document" in sentences


def test_the_split_follows_the_seed(tmp_path: Path) -> None:
    corpus = Corpus(tuple(TEXT * n for n in range(1, 12)), "example")
    tokenizer = build_tokenizer("char", corpus.documents, None)
    one, same, other = (
        prepare(corpus, tokenizer, replace(SETTINGS, seed=seed), tmp_path / str(i))
        for i, seed in enumerate((0, 0, 1))
    )
    assert one.validation.starts.tolist() == same.validation.starts.tolist()
    assert one.validation.starts.tolist() != other.validation.starts.tolist()
