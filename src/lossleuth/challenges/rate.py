"""Other learning rates, from a tenth to a hundred times the present one."""

from __future__ import annotations

from lossleuth.types.challenge import Bias, Challenge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence


def _is_settled(evidence: Evidence) -> bool:
    """Whether the rate has stopped rising: until then, nothing is too low."""
    rates = evidence.learning_rates
    return not rates or max(rates) > rates[-1] or rates[len(rates) // 2] == rates[-1]


CHALLENGES = (
    Challenge(Change.of("scale_lr", factor=0.1), "at a tenth of the learning rate"),
    Challenge(
        Change.of("scale_lr", factor=10.0),
        "at ten times the learning rate",
        Bias.EARLY,
        applies=_is_settled,
    ),
    Challenge(Change.of("scale_lr", factor=0.3), "at 0.3 times the learning rate"),
    Challenge(
        Change.of("scale_lr", factor=3.0),
        "at three times the learning rate",
        Bias.TUNING,
        applies=_is_settled,
    ),
)
