"""No clipping, usual clipping, and the textbook's AdamW in place of the program's optimizer."""

from __future__ import annotations

from lossleuth.types.challenge import Bias, Challenge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence


def _clips(evidence: Evidence) -> bool:
    return any(step.clip_factor is not None and step.clip_factor < 1 for step in evidence.steps)


def _clips_nothing(evidence: Evidence) -> bool:
    return not _clips(evidence)


def _has_moments(evidence: Evidence) -> bool:
    """Whether the program's optimizer is one of Adam's kind, with a rate that suits AdamW."""
    return any(group.betas is not None for group in evidence.settings.groups)


CHALLENGES = (
    Challenge(
        Change.of("use_rule", rule="AdamW", usual=True),
        "with the usual AdamW at the same rate",
        applies=_has_moments,
    ),
    # Shorter steps help where gradients are large at first, longer ones where little is learnt.
    Challenge(Change.of("keep_gradients"), "without clipping", Bias.EARLY, applies=_clips),
    Challenge(
        Change.of("clip_gradients", norm=1.0),
        "with gradients clipped at 1",
        Bias.EARLY,
        applies=_clips_nothing,
    ),
)
