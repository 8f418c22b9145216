"""The network is dead: its output is constant, and no gradient gets through.

What it means
    Weights or gains are zero, so that every logit is the same whatever the input: the loss is
    exactly ln V, and the correct gradient is exactly 0.

Why training fails
    There is no gradient to follow. No rate, no loss and no optimizer helps.

How it is judged
    On recorded steps all logits are equal to the last digit, the loss is ln V, and the true
    gradient of the loss with every cut opened is 0 for all parameters, or for all but those of the
    output. Proven by that alone if it is still so at the end of the run. A zero output layer alone
    is no fault: it gets a gradient, and the rest follows.

How to fix
    Check that the initialisation runs, and what a loaded checkpoint holds; gains start at 1.

When this verdict is wrong
    It has no known exception.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import finite, true_losses, vocabulary, weights_place
from lossleuth.findings.loss import TrueLoss
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MAX_SPREAD = Limit(
    1e-6, "largest standard deviation of equal logits", "rounding of a number near 1 in float32"
)
MAX_GRADIENT = Limit(1e-10, "largest norm of a gradient that does not get through")


def judge(evidence: Evidence) -> Judgement:
    """Look at logits, loss and gradient on all recorded steps."""
    known = [true for true in evidence.all(TrueLoss) if true.loss is not None]
    spreads = [true.logits_std for true in known if true.logits_std is not None]
    if not spreads:
        return untested("no step with logits and targets was recorded")
    spread = max(spreads)
    if spread > MAX_SPREAD:
        return refuted(f"logits differ: their standard deviation is {spread:.3g}, not 0")
    gradients = finite(true.gradient for true in known)
    if not gradients:
        return untested("all logits are equal, and their gradient is not known")
    if max(gradients) > MAX_GRADIENT:
        return refuted(f"a gradient of {max(gradients):.2g} gets through, where 0 would be dead")
    classes, losses = vocabulary(evidence) or 0, true_losses(evidence)
    loss, uniform = losses[-1][1], math.log(classes) if classes else math.nan
    because = (
        f"All logits are equal (standard deviation {spread:.1e}) on {len(known)} recorded steps, "
        f"the loss is {loss:.4f} = ln {classes} = {uniform:.4f}, and no gradient gets through."
    )
    return Judgement(
        Status.PROVEN,
        because,
        weights_place(evidence),
        Wrongness("standard deviation of the logits", spread, 1.0, float(MAX_SPREAD)),
        remedy="Initialise the weights: gains 1, matrices random.",
        cure=Change.of("redraw_weights"),
    )


CAUSE = Cause(
    "dead_network",
    Stage.INITIALISATION,
    "the output is constant and no gradient gets through",
    judge,
    needs=(TrueLoss,),
    limits=(MAX_SPREAD, MAX_GRADIENT),
    overlaps=("input_ignored", "loss_disconnected", "lr_too_low"),
    voids_trials=True,
)
