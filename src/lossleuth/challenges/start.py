"""Weights of the usual size at the start."""

from __future__ import annotations

from lossleuth.types.challenge import Bias, Challenge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence


def _draws_its_weights(evidence: Evidence) -> bool:
    """Weights from a file are what they are."""
    weights = evidence.origins.weights
    return weights is None or not weights.files


CHALLENGES = (
    Challenge(
        Change.of("rescale_weights"),
        "with initial weights of the usual size",
        Bias.EARLY,
        applies=_draws_its_weights,
    ),
)
