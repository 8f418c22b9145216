"""From files to token windows: what training and evaluation both start with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lossleuth.train.corpus import Corpus
from lossleuth.train.data import (
    Span,
    Tokens,
    Windows,
    check_long_enough,
    document_spans,
    fingerprint,
    make_windows,
    split_spans,
    write_tokens,
)
from lossleuth.train.evaluate import bytes_of_targets
from lossleuth.train.floors import Floors, loss_floors
from lossleuth.train.settings import TrainSettings
from lossleuth.train.tokenizer import Tokenizer


@dataclass(frozen=True)
class Prepared:
    """Tokens, how they are cut, and what is known of them."""

    tokens: Tokens
    fingerprint: str
    training: Windows
    validation: Windows
    validation_bytes: int | None
    floors: Floors
    sentences: tuple[str, ...]


def prepare(corpus: Corpus, tokenizer: Tokenizer, settings: TrainSettings, path: Path) -> Prepared:
    """Encode the corpus into the token file `path` and cut it into windows."""
    tokens = write_tokens(path, corpus.documents, tokenizer)
    spans = document_spans(tokens, tokenizer.end_of_text)
    check_long_enough(spans, settings.context)
    train_spans, held_spans = split_spans(spans, settings.validation_share, settings.seed)
    training = make_windows(train_spans, settings.context, settings.window_stride)
    return Prepared(
        tokens=tokens,
        fingerprint=fingerprint(tokens),
        training=training,
        validation=make_windows(held_spans, settings.context, settings.context),
        validation_bytes=bytes_of_targets(tokens, held_spans, tokenizer),
        floors=loss_floors(tokens, train_spans, tokenizer.size),
        sentences=_describe(corpus, tokenizer, tokens, train_spans, held_spans, training),
    )


def _describe(
    corpus: Corpus,
    tokenizer: Tokenizer,
    tokens: Tokens,
    train_spans: Sequence[Span],
    held_spans: Sequence[Span],
    training: Windows,
) -> tuple[str, ...]:
    distinct = sum(span.targets for span in train_spans)
    positions = len(training) * training.context
    unknown = float((tokens == tokenizer.unknown).mean()) if tokenizer.unknown is not None else 0.0
    held = sum(span.targets for span in held_spans)
    cut = "the end of the one document" if len(corpus.documents) == 1 else f"{len(held_spans)}"
    return (
        f"data: {corpus.source}: {len(corpus.documents)} documents, "
        f"{corpus.characters:,} characters",
        f"tokens: {len(tokens):,} ({tokenizer.kind}, vocabulary {tokenizer.size}), "
        f"unknown {unknown:.2%}",
        f"windows: {len(training):,} distinct of {training.context} tokens, "
        f"each target in {training.targets / distinct:.2f} of them, "
        f"{1 - training.targets / positions:.1%} of positions past a document's end",
        f"held back for validation: {held:,} tokens in {cut}"
        + (" documents" if len(corpus.documents) > 1 else ""),
    )
