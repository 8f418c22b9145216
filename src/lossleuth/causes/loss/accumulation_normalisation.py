"""Micro-batches of unequal token counts are averaged as equals.

What it means
    A step is made of several backward passes. Each is a mean over its own targets, and all count
    the same, though one may have ten times as many targets as another.

Why training fails
    Tokens in short micro-batches weigh more than others: the gradient is not that of the whole
    batch. How much that matters depends on how unequal they are.

How it is judged
    The weight of each micro-batch in the gradient is compared with its share of the targets.
    Whether it matters is tried: the same run with micro-batches weighed by their targets.

How to fix
    Sum the losses of all micro-batches and divide by the number of their targets.

When this verdict is wrong
    When every sequence is meant to count the same, whatever its length; the trial decides.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import backward_place, decided_by_trial
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# Largest relative distance of a weight from its share that is no fault.
TOLERATED = 0.02
CURE = Change.of("weigh_micro_batches")


def judge(evidence: Evidence) -> Judgement:
    """Compare weights and counts on every recorded step with several backward passes."""
    if not evidence.steps:
        return untested("no update was made: which backward passes belong together is not known")
    worst = None
    for window in evidence.windows:
        runs = [g for g in window.get("logit_gradients") or () if g.get("scale") is not None]
        if len(runs) < 2:
            continue
        weights, counts = sum(g["scale"] for g in runs), sum(g["count"] for g in runs)
        if not weights or not counts:
            continue
        gap = max(abs(g["scale"] / weights * counts / g["count"] - 1) for g in runs)
        if math.isfinite(gap):
            worst = gap if worst is None else max(worst, gap)
    if worst is None:
        return untested("no recorded step has several backward passes with targets")
    if worst <= TOLERATED:
        return refuted(f"micro-batches weigh what their targets do, within {worst:.2%}")
    because = (
        f"The weight of a micro-batch differs from its share of the targets by up to {worst:.0%}; "
        "it should be 0 %."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        backward_place(evidence),
        Wrongness("weight of a micro-batch against its share", worst, 0.0, 1e-6),
        remedy="Divide the summed losses of a step by the number of its targets.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "accumulation_normalisation",
    Stage.LOSS,
    "micro-batches of unequal counts are averaged as equals",
    judge,
    ("logit_gradients",),
    overlaps=("loss_scale",),
)
