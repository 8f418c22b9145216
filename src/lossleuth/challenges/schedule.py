"""The learning rate held at its highest, and the schedule stretched."""

from __future__ import annotations

from lossleuth.types.challenge import Bias, Challenge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence

# A rate that has fallen below this share of its highest is a schedule.
FALLEN = 0.9


def _falls(evidence: Evidence) -> bool:
    rates = evidence.learning_rates
    return bool(rates) and rates[-1] < FALLEN * max(rates)


CHALLENGES = (
    Challenge(
        Change.of("hold_lr"),
        "with the learning rate held at its highest",
        Bias.EARLY,
        over_whole_run=True,
        applies=_falls,
    ),
    Challenge(
        Change.of("stretch_schedule", factor=4.0),
        "with a schedule four times as long",
        Bias.EARLY,
        over_whole_run=True,
        applies=_falls,
    ),
)
