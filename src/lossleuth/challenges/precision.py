"""Full precision in place of a narrower type."""

from __future__ import annotations

from lossleuth.findings.gradient import GradientTruth
from lossleuth.types.challenge import Challenge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence

# Rounding of a gradient, as a share of its size: float32 makes 1e-7 of it, bfloat16 3e-3.
NARROW = 1e-5


def _rounds_much(evidence: Evidence) -> bool:
    return any(truth.floor > NARROW for truth in evidence.all(GradientTruth))


CHALLENGES = (
    Challenge(Change.of("autocast", enabled=False), "without autocast", applies=_rounds_much),
)
