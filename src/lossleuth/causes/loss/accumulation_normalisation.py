"""Micro-batches of unequal token counts are averaged as equals.

What it means
    A step is made of several backward passes. Each is a mean over its own targets, and all count
    the same, though one may have ten times as many targets as another.

Why training fails
    Tokens in short micro-batches weigh more than others: the gradient is not that of the whole
    batch. How much that matters depends on how unequal they are.

How it is judged
    The weight of each micro-batch in the gradient is compared with its share of the targets.
    A trial shows whether it matters: the same run with micro-batches weighted by their targets.

How to fix
    Sum the losses of all micro-batches and divide by the number of their targets.

When this verdict is wrong
    When every sequence is meant to count the same, whatever its length; the trial decides.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import MIN_EFFECT_NATS, backward_place, decided_by_trial
from lossleuth.findings.gradient import LogitGradient
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MAX_GAP = Limit(0.02, "largest relative distance of a weight from its share that is no fault")
ROUNDING = Limit(1e-6, "relative distance that rounding alone could make")
CURE = Change.of("weigh_micro_batches")


def judge(evidence: Evidence) -> Judgement:
    """Compare weights and counts on every recorded step with several backward passes."""
    if not evidence.steps:
        return untested("no update was made: which backward passes belong together is not known")
    gaps = [gap for step in evidence.recorded if (gap := _gap(step)) is not None]
    if not gaps:
        return untested("no recorded step has several backward passes with targets")
    worst = max(gaps)
    if worst <= MAX_GAP:
        return refuted(f"micro-batches weigh what their targets do, within {worst:.2%}")
    because = (
        f"The weight of a micro-batch differs from its share of the targets by up to {worst:.0%}; "
        "it should be 0 %."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        backward_place(evidence),
        Wrongness("weight of a micro-batch against its share", worst, 0.0, float(ROUNDING)),
        remedy="Divide the summed losses of a step by the number of its targets.",
    )
    return decided_by_trial(evidence, fault, [CURE])


def _gap(step: RecordedStep) -> float | None:
    """The largest relative distance of a weight from its share; None if there is nothing to see."""
    runs = [(g.scale, g.count) for g in step.all(LogitGradient) if g.scale is not None]
    weights, counts = sum(scale for scale, _ in runs), sum(count for _, count in runs)
    if len(runs) < 2 or not weights or not counts:
        return None
    gap = max(abs(scale / weights * counts / count - 1) for scale, count in runs)
    return gap if math.isfinite(gap) else None


CAUSE = Cause(
    "accumulation_normalisation",
    Stage.LOSS,
    "micro-batches of unequal counts are averaged as equals",
    judge,
    needs=(LogitGradient,),
    limits=(MAX_GAP, ROUNDING, MIN_EFFECT_NATS),
    overlaps=("loss_scale",),
    relies_on=("loss scaling",),
)
