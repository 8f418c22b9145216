"""Another order of the samples."""

from __future__ import annotations

from lossleuth.challenges.data import CHALLENGES
from lossleuth.types.challenge import Bias
from lossleuth.types.evidence import Evidence


def test_every_run_is_shuffled_and_its_gain_counts() -> None:
    (challenge,) = CHALLENGES
    assert challenge.applies(Evidence())
    assert challenge.bias is Bias.NONE
