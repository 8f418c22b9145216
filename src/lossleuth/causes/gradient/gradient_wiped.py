"""Gradients are zeroed between the backward pass and the update.

What it means
    `zero_grad` stands between `backward` and `step`, or something else sets gradients to zero or to
    None before they are used.

Why training fails
    The update has nothing to follow: weights stay as they are, or only decay.

How it is judged
    On recorded steps, the gradients that the backward pass left are compared with those that the
    update used: parameters are counted whose gradient was not zero and is zero or None at the
    update. Whether it matters is tried: the same run with gradients kept.

How to fix
    Clear gradients after the update or before the forward pass.

When this verdict is wrong
    When some gradients are zeroed on purpose, to freeze a part; the trial decides.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial, share, update_place
from lossleuth.findings.update import GradientEdits
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_WIPED_SHARE = Limit(0.02, "least share of the parameters whose gradient is zeroed")
MAX_WIPED_STEPS = Limit(
    0.5, "largest share of the recorded steps with wiped gradients that is no fault"
)
CURE = Change.of("keep_gradients")


def judge(evidence: Evidence) -> Judgement:
    """Look at what became of gradients before the update."""
    known = [edits for edits in evidence.all(GradientEdits) if math.isfinite(edits.factor)]
    if not known:
        return untested("no finite gradient was recorded")
    every = [share(edits.wiped, edits.left) for edits in known]
    there = [part for part in every if part >= MIN_WIPED_SHARE]
    if len(there) <= MAX_WIPED_STEPS * len(every):
        least = min(every)
        return refuted(f"the update uses the gradients that were left to it ({least:.0%} wiped)")
    wiped, steps = min(there), "all" if len(there) == len(every) else f"{len(there)}"
    because = (
        f"{wiped:.0%} of the parameters with a gradient after the backward pass have none, or "
        f"zero, at the update, on {steps} of {len(known)} recorded steps; it should be 0 %."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        update_place(evidence),
        Wrongness("share of gradients wiped", wiped, 0.0, 0.0),
        remedy="Clear gradients after the update, not before it.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "gradient_wiped",
    Stage.GRADIENT,
    "gradients are zeroed before the update",
    judge,
    needs=(GradientEdits,),
    limits=(MIN_WIPED_SHARE, MAX_WIPED_STEPS, MIN_EFFECT_NATS),
    overlaps=("wrong_backward", "never_steps"),
)
