"""Weights of the usual size."""

from __future__ import annotations

from lossleuth.challenges.start import CHALLENGES
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import FoundIn, Origins, WeightOrigins


def test_weights_from_a_file_are_left_alone() -> None:
    (challenge,) = CHALLENGES
    loaded = Origins(weights=WeightOrigins([FoundIn("base.pt", 1.0)]))
    assert challenge.applies(Evidence())
    assert not challenge.applies(Evidence(origins=loaded))
