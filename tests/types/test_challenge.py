"""Standing changes."""

from __future__ import annotations

from lossleuth.types.challenge import Bias, Challenge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence


def test_a_challenge_is_taken_by_every_run_and_its_gain_counts_unless_it_says_otherwise() -> None:
    made = Challenge(Change.of("hold_lr"), "with the learning rate held")
    assert made.applies(Evidence())
    assert (made.bias, made.over_whole_run) == (Bias.NONE, False)
