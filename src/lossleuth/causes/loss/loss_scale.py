"""The loss is multiplied by a number: a sum for a mean, an accumulation not divided by.

What it means
    What is differentiated asks of the logits what cross-entropy asks, times a factor: the number of
    tokens where a sum was taken, the number of micro-batches, a mean of a mean.

Why training fails
    For an optimizer whose step is proportional to the gradient, it is a learning rate that many
    times too high or too low. One that divides by the gradient's size does not care.

How it is judged
    The gradient at the logits over that of the mean cross-entropy, summed over the micro-batches of
    a step, is the factor; it should be 1. Whether it matters is tried: the same run with gradients
    divided by it.

How to fix
    Take the mean, and divide by the number of micro-batches once.

When this verdict is wrong
    When a factor is meant, such as a weight of a term; the trial decides.
"""

from __future__ import annotations

import statistics

from lossleuth.causes.reasoning import backward_place, decided_by_trial, first_place
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# A factor within these is a weight or a rounding, not a mistake of kind.
LOW, HIGH = 0.4, 2.5
SAME_DIRECTION = 0.9
LEAST = 0.05


def judge(evidence: Evidence) -> Judgement:
    """The factor on each recorded step, and a trial without it."""
    factors = []
    for window in evidence.windows:
        runs = [g for g in window.get("logit_gradients") or () if g.get("scale") is not None]
        scaler = [s.get("loss_scale") for s in evidence.steps if s["step"] == window["step"]]
        if window.get("updates") and runs and all(g["cosine"] > SAME_DIRECTION for g in runs):
            factors.append(sum(g["scale"] for g in runs) / ((scaler and scaler[0]) or 1.0))
    if not factors:
        return untested("what is differentiated does not point where cross-entropy does")
    factor = statistics.median(factors)
    if LOW < factor < HIGH:
        return refuted(f"the loss is cross-entropy times {factor:.3f}, where 1 is expected")
    because = (
        f"What is differentiated is {factor:.4g} times the mean cross-entropy of a step; 1 is "
        "expected."
    )
    places = [p["loss"] for p in evidence.probed("target_places")]
    fault = Judgement(
        Status.SUSPECTED,
        because,
        first_place(places) or backward_place(evidence),
        Wrongness("factor of the loss", factor, 1.0, 1e-3),
        remedy="Average over targets and micro-batches, once.",
    )
    cure = Change.of("scale_gradient", factor=float(f"{1 / factor:.6g}"))
    return decided_by_trial(evidence, fault, [cure], least=LEAST)


CAUSE = Cause(
    "loss_scale",
    Stage.LOSS,
    "the loss is multiplied by a number",
    judge,
    ("logit_gradients",),
    overlaps=("lr_too_high", "lr_too_low", "accumulation_normalisation", "clip_too_tight"),
    changes_printed_loss=True,
)
