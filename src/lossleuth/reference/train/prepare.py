"""From files to token windows: what training and evaluation both start with."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.reference.train.corpus import Corpus
from lossleuth.reference.train.data import (
    Tokens,
    Windows,
    check_long_enough,
    fingerprint,
    make_windows,
)
from lossleuth.reference.train.evaluate import bytes_of_targets, targets_of
from lossleuth.reference.train.floors import Floors, loss_floors
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.reference.train.split import EncodedSplit, Split, encode_split, hold_back
from lossleuth.reference.train.tokenizer import Tokenizer, build_tokenizer


@dataclass(frozen=True)
class Prepared:
    """Tokens, how they are cut, and what is known of them."""

    tokenizer: Tokenizer
    tokens: Tokens
    fingerprint: str
    training: Windows
    validation: Windows
    validation_bytes: int | None
    validation_unknown: float
    floors: Floors
    sentences: tuple[str, ...]


def prepare(
    corpus: Corpus, settings: TrainSettings, tokenizer: Tokenizer | None = None
) -> Prepared:
    """Split the corpus, encode it and cut it into windows; writes nothing.

    Without a tokenizer, one is fitted on the text that is trained on.
    """
    split = hold_back(
        corpus.documents,
        settings.validation_share,
        settings.seed,
        # Half a word would be a word of its own.
        whole_words=settings.tokenizer != "char",
    )
    tokenizer = tokenizer or build_tokenizer(
        settings.tokenizer, split.training, settings.vocab_size
    )
    encoded = encode_split(split, tokenizer)
    check_long_enough(encoded.longest_document, settings.context)
    training = make_windows(encoded.training, settings.context, settings.window_stride)
    return Prepared(
        tokenizer=tokenizer,
        tokens=encoded.tokens,
        fingerprint=fingerprint(encoded.tokens),
        training=training,
        validation=make_windows(encoded.held, settings.context, settings.context),
        validation_bytes=bytes_of_targets(encoded.tokens, encoded.held, tokenizer),
        validation_unknown=tokenizer.unknown_share(targets_of(encoded.tokens, encoded.held)),
        floors=loss_floors(encoded.tokens, encoded.training, tokenizer.size),
        sentences=_describe(corpus, tokenizer, split, encoded, training),
    )


def _describe(
    corpus: Corpus, tokenizer: Tokenizer, split: Split, encoded: EncodedSplit, training: Windows
) -> tuple[str, ...]:
    distinct = sum(span.targets for span in encoded.training)
    positions = len(training) * training.context
    held = sum(span.targets for span in encoded.held)
    where = "the end of the one document" if split.lone else f"{len(encoded.held)} documents"
    unknown_trained, unknown_held = (
        tokenizer.unknown_share(targets_of(encoded.tokens, spans))
        for spans in (encoded.training, encoded.held)
    )
    return (
        f"data: {corpus.source}: {len(corpus.documents)} documents, "
        f"{corpus.characters:,} characters",
        f"tokens: {len(encoded.tokens):,} ({tokenizer.kind}, vocabulary {tokenizer.size}, "
        f"from the training text), unknown: {unknown_trained:.2%} of training, "
        f"{unknown_held:.2%} of validation",
        f"windows: {len(training):,} distinct of {training.context} tokens, "
        f"each target in {training.targets / distinct:.2f} of them, "
        f"{1 - training.targets / positions:.1%} of positions past a document's end",
        f"held back for validation: {held:,} tokens in {where}",
    )
