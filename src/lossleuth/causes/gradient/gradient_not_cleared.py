"""Gradients of earlier steps are still there when new ones are added.

What it means
    `zero_grad` is missing, comes at the wrong moment, or clears other parameters: the update uses
    the sum of all gradients so far.

Why training fails
    Old gradients, taken at old weights, outweigh the new one. Steps get longer and follow
    directions that no longer lead down.

How it is judged
    The size of the gradient that is there before a step's first backward pass, over the size of
    what that pass adds. It is 0 where gradients are cleared. Whether it matters is tried: the same
    run with gradients cleared.

How to fix
    Call `optimizer.zero_grad()` once per update, before the first backward pass.

When this verdict is wrong
    When gradients are kept on purpose, as a crude momentum; the trial decides.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial, update_place
from lossleuth.findings.gradient import StaleGradient
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MAX_CLEARED_SHARE = Limit(0.01, "largest share of an old gradient that counts as cleared")
MAX_LEFT_SHARE = Limit(
    0.5, "largest share of the recorded steps with an old gradient that is no fault"
)
CURE = Change.of("clear_gradients")


def judge(evidence: Evidence) -> Judgement:
    """Look at what is there before each recorded step's first backward pass."""
    # Before the first step there is nothing to clear.
    shares = [stale.share for step, stale in evidence.by_step(StaleGradient) if step > 0]
    shares = [share for share in shares if math.isfinite(share)]
    if not shares:
        return untested("no step after the first was recorded with a finite gradient")
    left = [share for share in shares if share > MAX_CLEARED_SHARE]
    if len(left) <= MAX_LEFT_SHARE * len(shares):
        return refuted(f"{min(shares):.1e} of an earlier gradient is left when a step begins")
    # Some are cleared where a program clears them now and then.
    steps = "all" if len(left) == len(shares) else f"{len(left)}"
    because = (
        f"Before a step's first backward pass there is a gradient of {max(shares):.2g} times the "
        f"size of the step's own, on {steps} of {len(shares)} recorded steps; it should be 0."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        update_place(evidence),
        Wrongness("old gradient over new", max(shares), 0.0, 0.0),
        remedy="Clear gradients once per update, before the first backward pass.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "gradient_not_cleared",
    Stage.GRADIENT,
    "gradients of earlier steps are added to new ones",
    judge,
    needs=(StaleGradient,),
    limits=(MAX_CLEARED_SHARE, MAX_LEFT_SHARE, MIN_EFFECT_NATS),
    overlaps=("loss_scale",),
    relies_on=("loss scaling",),
)
