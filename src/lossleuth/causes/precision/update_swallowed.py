"""Updates are too small for the type of the weights.

What it means
    A weight plus its update rounds to the old weight: in bfloat16 an update below about 1/256 of
    the weight is lost.

Why training fails
    Large weights stand still while small ones move; late in training nothing moves at all.

How it is judged
    The share of each tensor's wanted update, by norm, that is lost because weights did not change,
    weighted by the number of elements of each tensor. Whether it matters is tried: the same run
    with the textbook rule in float64, where weights are rounded only when they are stored.

How to fix
    Keep weights in float32 and compute in half precision (autocast), or use stochastic rounding.

When this verdict is wrong
    When only frozen or hardly moving tensors are concerned; the trial decides.
"""

from __future__ import annotations

import math
import statistics

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    decided_by_trial,
    finite,
    optimizer_place,
    sure_gain,
)
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_LOST_SHARE = Limit(
    0.12,
    "least share of an update, in the median of all steps, that is lost",
    "picked by hand: a planted fault loses 0.15 where weights start small; the trial decides",
)
WANTS = (Change.of("use_rule", rule="AdamW"), Change.of("use_rule", rule="SGD"))


def judge(evidence: Evidence) -> Judgement:
    """Weigh what is swallowed by the elements of each tensor."""
    usual = usually_lost(evidence)
    rates = finite(evidence.learning_rates)
    if usual is not None and rates and not max(rates):
        return untested("at a learning rate of 0 there is no update to be lost")
    if usual is None:
        return untested("what is lost of an update was not measured")
    if usual < MIN_LOST_SHARE:
        return refuted(f"{usual:.1e} of an update is lost in rounding in the median")
    because = (
        f"{usual:.0%} of an update, by norm, is lost in the rounding of the weights in the median "
        "of all steps; it should be near 0 %."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        optimizer_place(evidence),
        Wrongness("share of the update swallowed", usual, 0.0, 0.01),
        remedy="Keep the weights in float32 and compute in half precision with autocast.",
    )
    return decided_by_trial(evidence, fault, WANTS)


def usually_lost(evidence: Evidence) -> float | None:
    """The share of an update that is lost in the median of all steps, where that was measured."""
    shares = _lost_shares(evidence)
    return statistics.median_high(shares) if shares else None


def may_be_cured_by_rate(evidence: Evidence) -> str | None:
    """What is lost of an update, where that is not known to be harmless: longer steps lose less."""
    usual = usually_lost(evidence)
    if usual is None or usual < MIN_LOST_SHARE:
        return None
    if evidence.answers(WANTS) and sure_gain(evidence, WANTS) is None:
        return None
    return (
        f"{usual:.0%} of an update is lost in the rounding of the weights in the median: longer "
        "steps may only make up for it"
    )


def _lost_shares(evidence: Evidence) -> list[float]:
    """The lost share of each step's update, over the elements of all tensors with a reading."""
    readings = evidence.readings
    found = []
    for lost, made in zip(readings.swallowed_share, readings.update_rms, strict=False):
        known = [
            (part, size)
            for part, update, size in zip(lost, made, evidence.sizes, strict=False)
            if math.isfinite(part) and not math.isnan(update)
        ]
        total = sum(size for _, size in known)
        if total:
            found.append(sum(part * size for part, size in known) / total)
    return found


CAUSE = Cause(
    "update_swallowed",
    Stage.PRECISION,
    "updates are too small for the type of the weights",
    judge,
    limits=(MIN_LOST_SHARE, MIN_EFFECT_NATS),
    overlaps=("lr_too_low", "update_rule_wrong", "lr_zero", "never_steps"),
)
