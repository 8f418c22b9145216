"""The loss is multiplied by a number: a sum for a mean, an accumulation not divided by.

What it means
    What is differentiated asks of the logits what cross-entropy asks, times a factor: the number of
    tokens where a sum was taken, the number of micro-batches, a mean of a mean.

Why training fails
    For an optimizer whose step is proportional to the gradient, it is a learning rate that many
    times too high or too low. For one that divides by the gradient's size it changes nothing.

How it is judged
    The gradient at the logits over that of the mean cross-entropy, summed over the micro-batches of
    a step, is the factor; it should be 1. A trial shows whether it matters: the same run with
    gradients divided by it.

How to fix
    Take the mean, and divide by the number of micro-batches once.

When this verdict is wrong
    When a factor is meant, such as a weight of a term; the trial decides.
"""

from __future__ import annotations

import statistics

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    backward_place,
    decided_by_trial,
    first_place,
)
from lossleuth.findings.data import TargetLines
from lossleuth.findings.gradient import LogitGradient
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.findings.update import UpdateTruth
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# A factor between these two is the weight of a term or rounding.
MIN_HARMLESS = Limit(0.4, "factor of the loss below which it is too small")
MAX_HARMLESS = Limit(2.5, "factor of the loss above which it is too large")
MIN_COSINE = Limit(0.9, "cosine with cross-entropy's gradient above which only a factor differs")
ROUNDING = Limit(1e-3, "error of a factor that rounding alone could make")


def judge(evidence: Evidence) -> Judgement:
    """Look at the factor on each recorded step, and at a trial without it."""
    scales = {step.step: step.loss_scale for step in reversed(evidence.steps)}
    factors = [
        factor / (scales.get(step.step) or 1.0)
        for step in evidence.recorded
        if (factor := _factor(step)) is not None
    ]
    if not factors:
        return untested("what is differentiated does not point where cross-entropy does")
    factor = statistics.median(factors)
    if MIN_HARMLESS < factor < MAX_HARMLESS:
        return refuted(f"the loss is cross-entropy times {factor:.3f}, where 1 is expected")
    because = (
        f"What is differentiated is {factor:.4g} times the mean cross-entropy of a step; 1 is "
        "expected."
    )
    places = [lines.loss for lines in evidence.all(TargetLines)]
    fault = Judgement(
        Status.SUSPECTED,
        because,
        first_place(places) or backward_place(evidence),
        Wrongness("factor of the loss", factor, 1.0, float(ROUNDING)),
        remedy="Average over targets and micro-batches, once.",
    )
    cure = Change.of("scale_gradient", factor=float(f"{1 / factor:.6g}"))
    return decided_by_trial(evidence, fault, [cure])


def _factor(step: RecordedStep) -> float | None:
    """What all backward passes of a step multiply cross-entropy by, if they point its way.

    Without an update they are no step; the update itself need not have been measured.
    """
    has_update = bool(step.all(UpdateTruth) or step.reasons(UpdateTruth))
    runs = [
        (g.cosine, g.scale)
        for g in step.all(LogitGradient)
        if g.cosine is not None and g.scale is not None
    ]
    if not has_update or not runs or not all(cosine > MIN_COSINE for cosine, _ in runs):
        return None
    return sum(scale for _, scale in runs)


CAUSE = Cause(
    "loss_scale",
    Stage.LOSS,
    "the loss is multiplied by a number",
    judge,
    needs=(LogitGradient,),
    uses=(UpdateTruth, TargetLines),
    limits=(MIN_HARMLESS, MAX_HARMLESS, MIN_COSINE, MIN_EFFECT_NATS, ROUNDING),
    overlaps=("lr_too_high", "lr_too_low", "accumulation_normalisation", "clip_too_tight"),
    changes_printed_loss=True,
    relies_on=("loss scaling",),
)
