"""Weights start far too large.

What it means
    At the start, the model is sure of wrong answers: its loss is far above ln V, that of knowing
    nothing.

Why training fails
    Saturated softmaxes and huge activations let little gradient through, or the first steps are
    spent on shrinking what should have been small.

How it is judged
    The first true loss is far above ln V. Whether it matters is tried: the same run from weights
    rescaled so that signals keep their size.

How to fix
    Draw matrices with a standard deviation near 1/sqrt(width), tables near 0.02; look at what a
    loaded checkpoint holds.

When this verdict is wrong
    When a trained model is confronted with a text that surprises it; rescaling does not help then.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import (
    decided_by_trial,
    true_losses,
    unigram,
    vocabulary,
    weights_place,
)
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# Nats above ln V at the start.
ABOVE = 1.0
LEAST = 0.1
# Nats below the entropy of single tokens at which a start was no obstacle.
LEARNT = 0.3
CURE = Change.of("rescale_weights")


def judge(evidence: Evidence) -> Judgement:
    """Compare the first loss with ln V."""
    losses, classes = true_losses(evidence), vocabulary(evidence)
    if not losses or not classes or losses[0][0] > 4 or math.isnan(losses[0][1]):
        return untested("the loss at the start is not known")
    start, floor = losses[0][1], math.log(classes)
    if start < floor + ABOVE:
        return refuted(f"the first loss is {start:.3f}, ln V is {floor:.3f}")
    known, last = unigram(evidence), losses[-1][1]
    if known is not None and last < known - LEARNT:
        return refuted(
            f"the first loss of {start:.3f} is above ln V = {floor:.3f}, and the run learns all "
            f"the same: {last:.3f} at step {losses[-1][0]}, below the {known:.3f} of single tokens"
        )
    because = (
        f"The first loss is {start:.2f}, where knowing nothing gives ln {classes} = {floor:.2f}."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        weights_place(evidence),
        Wrongness("first loss", start, floor, ABOVE),
        remedy="Start from smaller weights.",
    )
    return decided_by_trial(evidence, fault, [CURE], least=LEAST)


CAUSE = Cause(
    "init_too_large",
    Stage.INITIALISATION,
    "weights start far too large",
    judge,
    ("true_loss",),
    overlaps=("lr_too_high", "lr_too_low", "overflow"),
)
