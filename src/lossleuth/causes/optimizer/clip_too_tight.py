"""Clipping harms.

What it means
    Gradients are clipped so far that steps become too short, for an optimizer whose steps depend on
    the size of gradients.

Why training fails
    Steps are too short by the same factor, as if the learning rate were too low.

How it is judged
    Clipping is looked at only where it changes the update. A clip rate of 100 % alone is no fault:
    Adam divides by the gradient's size, and a constant factor cancels. Whether it matters is tried:
    the same run with gradients unclipped, or, where that diverges, clipped at 1. Every run that
    clips is tried without.

How to fix
    Raise the limit, or raise the rate by the factor that clipping takes away.

When this verdict is wrong
    When only the very first steps would be harmed by not clipping.
"""

from __future__ import annotations

import statistics

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    clip_place,
    decided_by_trial,
    finite,
    setting_place,
    sure_gain,
)
from lossleuth.findings.update import GradientEdits
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MAX_FACTOR = Limit(0.2, "largest median factor, of a gradient's size, that is tight clipping")
MIN_DIVERGED = Limit(2, "least loss of a run that diverges, in multiples of its first")
# Without any clipping a high rate may diverge, which says nothing of a limit that is usual.
CURE, LOOSER = Change.of("keep_gradients"), Change.of("keep_gradients", norm=1.0)


def judge(evidence: Evidence) -> Judgement:
    """Look at the factor of clipping, and at what is left of the update."""
    steps = evidence.steps
    factors = finite(step.clip_factor for step in steps)
    # A gradient scaler makes gradients smaller too, and is no clipping.
    if not factors and not any(step.loss_scale for step in steps):
        factors = [e.factor for e in evidence.all(GradientEdits) if 0 < e.factor <= 1]
    if not factors and not steps:
        return untested("no step was seen")
    if not factors:
        return refuted(f"gradients are clipped in 0 of {len(steps)} steps")
    usual = statistics.median(factors)
    clipped = sum(f < 1 for f in factors)
    if usual > MAX_FACTOR and (not clipped or sure_gain(evidence, [CURE]) is None):
        return refuted(
            f"gradients are clipped in {clipped} of {len(factors)} steps, to {usual:.0%} of their "
            "size in the median"
        )
    limits = [step.clip_limit for step in steps if step.clip_limit is not None]
    limit = f" at {limits[-1]:.3g}" if limits else ""
    because = (
        f"Gradients are clipped{limit} to {usual:.2%} of their size in the median, in {clipped} of "
        f"{len(factors)} steps."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        setting_place(evidence, "clip") or clip_place(evidence),
        Wrongness("factor of clipping", usual, 1.0, 0.0),
        remedy="Raise the limit of clipping.",
    )
    without = evidence.effects.get(CURE)
    diverges = without is not None and not without.with_change < MIN_DIVERGED * without.start
    cure = LOOSER if diverges else CURE
    decided = decided_by_trial(evidence, fault, [cure])
    if decided.status is Status.BENIGN:
        return refuted(decided.because)
    return decided


CAUSE = Cause(
    "clip_too_tight",
    Stage.OPTIMIZER,
    "clipping harms",
    judge,
    uses=(GradientEdits,),
    limits=(MAX_FACTOR, MIN_EFFECT_NATS, MIN_DIVERGED),
    overlaps=("lr_too_low", "loss_scale", "gradient_wiped"),
    relies_on=(
        "clipping",
        "loss scaling",
    ),
)
