"""The text is the same everywhere, and what follows can be told from what came before."""

from __future__ import annotations

import torch

from lossleuth.labs.lab.programs.made_up_text import PAD, Text


def test_it_is_the_same_every_time() -> None:
    assert torch.equal(Text(length=500).tokens(), Text(length=500).tokens())
    assert not torch.equal(Text(length=500).tokens(), Text(length=500, seed=8).tokens())


def test_padding_is_no_part_of_it() -> None:
    tokens = Text(length=5000).tokens()
    assert int(tokens.min()) > PAD
    assert int(tokens.max()) < Text().vocabulary


def test_knowing_two_tokens_tells_a_lot_of_the_third() -> None:
    tokens = Text().tokens()
    counts = torch.bincount(tokens, minlength=64).double()
    unigram = -(counts / counts.sum() * (counts / counts.sum()).clamp(min=1e-12).log()).sum()
    key = (tokens[1:-1] * 2 + tokens[:-2] % 2) * 64 + tokens[2:]
    joint = torch.bincount(key, minlength=2 * 64 * 64).double().view(-1, 64)
    rows = joint / joint.sum(1, keepdim=True).clamp(min=1)
    given = -(joint * rows.clamp(min=1e-12).log()).sum() / joint.sum()
    assert given < 1.7 < 3.9 < unigram
