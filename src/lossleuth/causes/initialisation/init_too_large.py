"""Weights start far too large.

What it means
    At the start, the model is sure of wrong answers: its loss is far above ln V, that of a uniform
    guess.

Why training fails
    Saturated softmaxes and huge activations let little gradient through, or the first steps are
    spent on shrinking what should have been small.

How it is judged
    The first true loss is far above ln V. A trial shows whether it matters: the same run from
    weights rescaled so that signals keep their size.

How to fix
    Draw matrices with a standard deviation near 1/sqrt(width), tables near 0.02; look at what a
    loaded checkpoint holds.

When this verdict is wrong
    When a trained model meets a text that surprises it; rescaling does not help then.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import (
    decided_by_trial,
    sure_gain,
    true_losses,
    unigram,
    vocabulary,
    weights_place,
)
from lossleuth.findings.loss import TrueLoss
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MAX_START_STEP = Limit(4, "latest recorded step whose loss is that of the start")
MIN_ABOVE_UNIFORM = Limit(1.0, "nats above ln V of a start that is too high")
MIN_LEARNT = Limit(0.3, "nats below the entropy of single tokens at which the start did no harm")
MIN_GAIN = Limit(0.1, "least gain of the trial, in nats, that counts as harm")
CURE = Change.of("rescale_weights")


def judge(evidence: Evidence) -> Judgement:
    """Compare the first loss with ln V."""
    losses, classes = true_losses(evidence), vocabulary(evidence)
    if not losses or not classes or losses[0][0] > MAX_START_STEP or math.isnan(losses[0][1]):
        return untested("the loss at the start is not known")
    start, uniform = losses[0][1], math.log(classes)
    if start < uniform + MIN_ABOVE_UNIFORM:
        return refuted(f"the first loss is {start:.3f}, ln V is {uniform:.3f}")
    entropy, (step, last) = unigram(evidence), losses[-1]
    gains = sure_gain(evidence, [CURE], MIN_GAIN) is not None
    if entropy is not None and last < entropy - MIN_LEARNT and not gains:
        return refuted(
            f"the first loss of {start:.3f} is above ln V = {uniform:.3f}, and the run still "
            f"learns: {last:.3f} at step {step}, below the {entropy:.3f} of single tokens"
        )
    because = (
        f"The first loss is {start:.2f}, where a uniform guess gives ln {classes} = {uniform:.2f}."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        weights_place(evidence),
        Wrongness("first loss", start, uniform, float(MIN_ABOVE_UNIFORM)),
        remedy="Start from smaller weights.",
    )
    return decided_by_trial(evidence, fault, [CURE], min_effect=MIN_GAIN)


CAUSE = Cause(
    "init_too_large",
    Stage.INITIALISATION,
    "weights start far too large",
    judge,
    needs=(TrueLoss,),
    limits=(MAX_START_STEP, MIN_ABOVE_UNIFORM, MIN_LEARNT, MIN_GAIN),
    overlaps=("lr_too_high", "lr_too_low", "overflow"),
)
