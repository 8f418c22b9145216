"""Updates are too small for the type of the weights.

What it means
    A weight plus its update is the weight again: in bfloat16 anything below 1/256 of a weight is
    lost in rounding.

Why training fails
    Large weights stand still while small ones move; late in training nothing moves at all.

How it is judged
    The share of each tensor's wanted update, by norm, that is lost because weights did not change,
    weighed by the tensors' elements. Whether it matters is tried: the same run with the update kept
    in float64 and rounded only where stored.

How to fix
    Keep weights in float32 and compute in half precision (autocast), or use stochastic rounding.

When this verdict is wrong
    When only frozen or hardly moving tensors are concerned; the trial decides.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import decided_by_trial, finite, optimizer_place
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

LEAST = 0.3
GAIN = 0.03
WANTS = (Change.of("use_rule", rule="AdamW"), Change.of("use_rule", rule="SGD"))


def judge(evidence: Evidence) -> Judgement:
    """Weigh what is swallowed by the elements of each tensor."""
    swallowed = evidence.columns.get("swallowed_share")
    updates = evidence.columns.get("update_rms")
    if not swallowed or not updates:
        return untested("what is lost of an update was not measured")
    rates = finite(evidence.series("lr"))
    if rates and not max(rates):
        return untested("at a learning rate of 0 there is no update to be lost")
    shares = []
    for lost, made in zip(swallowed, updates, strict=False):
        pairs = [
            (x, n)
            for x, u, n in zip(lost, made, evidence.sizes, strict=False)
            if math.isfinite(x) and not math.isnan(u)
        ]
        total = sum(n for _, n in pairs)
        if total:
            shares.append(sum(x * n for x, n in pairs) / total)
    if not shares:
        return untested("what is lost of an update was not measured")
    shares.sort()
    usual = shares[len(shares) // 2]
    if usual < LEAST:
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
    return decided_by_trial(evidence, fault, WANTS, least=GAIN)


CAUSE = Cause(
    "update_swallowed",
    Stage.PRECISION,
    "updates are too small for the type of the weights",
    judge,
    ("swallowed_share",),
    overlaps=("lr_too_low", "update_rule_wrong", "lr_zero", "never_steps"),
)
