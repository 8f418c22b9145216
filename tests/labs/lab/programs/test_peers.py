"""The host of the comparison is the plain one with more tokens and a longer run."""

from __future__ import annotations

from dataclasses import replace

from lossleuth.labs.lab.programs import peers, plain


def test_it_has_more_tokens_than_the_plain_host() -> None:
    ours, theirs = peers.healthy(), plain.healthy()
    assert ours.settings.text.vocabulary > theirs.settings.text.vocabulary
    assert ours.settings.steps == 300 and ours.host == "peers"


def test_it_learns() -> None:
    parts = peers.healthy()
    losses = plain.train(replace(parts, settings=replace(parts.settings, steps=80, layers=1)))
    assert sum(losses[-10:]) / 10 < losses[0] - 0.8
