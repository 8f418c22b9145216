"""From documents to windows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small import SETTINGS

from lossleuth.reference.train.corpus import Corpus
from lossleuth.reference.train.prepare import prepare

TEXT = "the quick brown fox jumps over the lazy dog. "


def test_documents_are_split_and_every_token_is_on_one_side() -> None:
    corpus = Corpus(tuple(TEXT * n for n in range(1, 9)), "example")
    prepared = prepare(corpus, replace(SETTINGS, validation_share=0.25))
    targets = prepared.training.targets + prepared.validation.targets
    assert targets == len(prepared.tokens) - 1
    assert 0.1 < prepared.validation.targets / targets < 0.4
    # Every target but the closing mark of each held document stands for one byte.
    held_documents = sum(length < 16 for length in prepared.validation.lengths.tolist())
    assert prepared.validation_bytes == prepared.validation.targets - held_documents


def test_what_was_made_of_the_data_is_told() -> None:
    corpus = Corpus((TEXT * 20,), "example")
    sentences = " ".join(prepare(corpus, replace(SETTINGS, stride=4)).sentences)
    assert "1 documents, 900 characters" in sentences
    assert "each target in 3.9" in sentences
    assert "the end of the one document" in sentences


def test_the_split_follows_the_seed() -> None:
    corpus = Corpus(tuple(TEXT * n for n in range(1, 12)), "example")
    one, same, other = (prepare(corpus, replace(SETTINGS, seed=seed)) for seed in (0, 0, 1))
    assert one.validation.starts.tolist() == same.validation.starts.tolist()
    assert one.validation.starts.tolist() != other.validation.starts.tolist()


@pytest.mark.parametrize("kind", ["char", "word"])
def test_the_vocabulary_knows_nothing_of_the_held_back_text(kind: str) -> None:
    """Each document has a mark of its own; the held-back one's must be unknown."""
    marks = "αβγδε"
    corpus = Corpus(tuple((TEXT + f"{mark} {mark} ") * 4 for mark in marks), "example")
    prepared = prepare(corpus, replace(SETTINGS, tokenizer=kind, validation_share=0.2))
    pieces = prepared.tokenizer.to_json()["pieces"]
    known = [mark for mark in marks if any(mark in piece for piece in pieces)]
    assert len(known) == 4
    assert prepared.validation_unknown > 0
    assert prepared.validation_bytes is None
    shares = f"unknown: 0.00% of training, {prepared.validation_unknown:.2%} of validation"
    assert shares in " ".join(prepared.sentences)


def test_the_end_of_a_lone_document_is_not_in_the_vocabulary_either() -> None:
    corpus = Corpus((TEXT * 20 + "ω" * 50,), "example")
    prepared = prepare(corpus, SETTINGS)
    assert "ω" not in prepared.tokenizer.to_json()["pieces"]
    assert prepared.validation_unknown > 0.4


def test_a_given_tokenizer_is_not_fitted_again() -> None:
    corpus = Corpus((TEXT * 20,), "example")
    first = prepare(corpus, SETTINGS)
    again = prepare(corpus, SETTINGS, first.tokenizer)
    assert again.tokenizer is first.tokenizer
    assert again.fingerprint == first.fingerprint
