"""Gradients of earlier steps are still there when new ones are added.

What it means
    `zero_grad` is missing, comes at the wrong moment, or clears other parameters: the update uses
    the sum of all gradients so far.

Why training fails
    Old gradients of old weights outweigh the new one; steps get longer and point backwards in time.

How it is judged
    The size of the gradient that is there before a step's first backward pass, over that of what
    the pass adds; it is 0 where gradients are cleared. Whether it matters is tried: the same run
    with gradients cleared.

How to fix
    Call `optimizer.zero_grad()` once per update, before the first backward pass.

When this verdict is wrong
    When gradients are kept on purpose, as a crude momentum; the trial decides.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import decided_by_trial, finite, update_place
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

LEAST = 0.01
CURE = Change.of("clear_gradients")


def judge(evidence: Evidence) -> Judgement:
    """Look at what is there before each recorded step's first backward pass."""
    shares = finite(w.get("stale_share") for w in evidence.windows if w["step"] > 0)
    if not shares:
        return untested("no step after the first was recorded with a backward pass")
    if min(shares) <= LEAST:
        return refuted(f"{min(shares):.1e} of an earlier gradient is left when a step begins")
    because = (
        f"Before a step's first backward pass there is a gradient of {max(shares):.2g} times the "
        f"size of the step's own, on all of {len(shares)} recorded steps; it should be 0."
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
    ("stale_share",),
    overlaps=("loss_scale",),
)
