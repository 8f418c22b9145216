"""Clipping harms.

What it means
    Gradients are clipped so far that steps become too short, for an optimizer whose steps depend on
    the size of gradients.

Why training fails
    It is a learning rate that many times too low.

How it is judged
    Clipping is looked at only where it changes the update. A clip rate of 100 % alone is no fault:
    Adam divides by the gradient's size, and a constant factor cancels. Whether it matters is tried:
    the same run with gradients unclipped, or, where that diverges, clipped at 1.

How to fix
    Raise the limit, or raise the rate by the factor that clipping takes away.

When this verdict is wrong
    When only the very first steps would be harmed by not clipping.
"""

from __future__ import annotations

import statistics

from lossleuth.causes.reasoning import clip_place, decided_by_trial, finite, setting_place
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# Factor that clipping has to take away, in most steps.
TIGHT = 0.2
LEAST = 0.1
# A loss that ends at so many times where it started has diverged.
DIVERGED = 2.0
# Without any clipping a high rate may diverge, which says nothing of a limit that is usual.
CURE, LOOSER = Change.of("keep_gradients"), Change.of("keep_gradients", norm=1.0)


def judge(evidence: Evidence) -> Judgement:
    """Look at the factor of clipping, and at what is left of the update."""
    factors = finite(evidence.series("clip_factor"))
    handled = [float(h["factor"]) for h in evidence.probed("handling")]
    scaled = any(s.get("loss_scale") for s in evidence.steps)
    if not factors and handled and not scaled:
        factors = [f for f in handled if 0 < f <= 1]
    if not factors and not evidence.steps:
        return untested("no step was seen")
    if not factors:
        return refuted(f"gradients are clipped in 0 of {len(evidence.steps)} steps")
    usual = statistics.median(factors)
    clipped = sum(f < 1 for f in factors)
    if usual > TIGHT:
        return refuted(
            f"gradients are clipped in {clipped} of {len(factors)} steps, to {usual:.0%} of their "
            "size in the median"
        )
    limits = evidence.series("clip_limit")
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
    diverges = without is not None and not without.with_change < DIVERGED * without.start
    decided = decided_by_trial(evidence, fault, [LOOSER if diverges else CURE], least=LEAST)
    if decided.status is Status.BENIGN:
        return refuted(decided.because)
    return decided


CAUSE = Cause(
    "clip_too_tight",
    Stage.OPTIMIZER,
    "clipping harms",
    judge,
    ("clipping", "trials"),
    overlaps=("lr_too_low", "loss_scale", "gradient_wiped"),
)
