"""The tale and the made-up language."""

from __future__ import annotations

import hashlib

import torch

from lossleuth.labs.cases.text import ALPHABET, SAMPLE, TALE, Language, decode, encode


def test_the_tale_uses_all_34_characters_and_no_other() -> None:
    assert len(ALPHABET) == 34
    assert set(TALE) == set(ALPHABET)


def test_the_tale_is_the_same_everywhere() -> None:
    assert hashlib.sha256(TALE.encode()).hexdigest()[:16] == "79f55cad22f99400"


def test_text_survives_encoding() -> None:
    assert decode(encode(SAMPLE)) == SAMPLE
    assert int(encode(TALE).max()) == 33


def test_sentences_are_drawn_from_the_language_and_repeatable() -> None:
    language = Language.made(50, 8)
    said = language.sentences(400, 12)
    assert torch.equal(said, Language.made(50, 8).sentences(400, 12))
    words, following = said[:, :-1].flatten(), said[:, 1:].flatten()
    scores = language.meaning_VC[words] @ language.calls_VC.T
    known = torch.nn.functional.cross_entropy(scores, following)
    counts = torch.bincount(following, minlength=50).double() / len(following)
    unigram = -(counts * counts.clamp(min=1e-9).log()).sum()
    assert float(known) < 0.7 * float(unigram)
