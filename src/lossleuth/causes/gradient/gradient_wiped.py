"""Gradients are zeroed between the backward pass and the update.

What it means
    `zero_grad` stands between `backward` and `step`, or something else sets gradients to zero or to
    nothing before they are used.

Why training fails
    The update has nothing to follow: weights stay, or only decay.

How it is judged
    On recorded steps, what the backward pass left is compared with what the update used: nothing or
    zero where it was not zero. Whether it matters is tried: the same run with gradients kept.

How to fix
    Clear gradients after the update or before the forward pass.

When this verdict is wrong
    When some gradients are zeroed on purpose, to freeze a part; the trial decides.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import decided_by_trial, share, update_place
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

LEAST = 0.02
CURE = Change.of("keep_gradients")


def judge(evidence: Evidence) -> Judgement:
    """Look at what became of gradients before the update."""
    known = [h for h in evidence.probed("handling") if h.get("left") is not None]
    if not known:
        return untested("no step with a backward pass and an update was recorded")
    lost = [share(h["wiped"], h["left"]) for h in known]
    if min(lost) < LEAST:
        return refuted(
            f"the update uses the gradients that were left to it ({min(lost):.0%} wiped)"
        )
    because = (
        f"{min(lost):.0%} of the parameters with a gradient after the backward pass have none, or "
        f"zero, at the update, on all of {len(known)} recorded steps; it should be 0 %."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        update_place(evidence),
        Wrongness("share of gradients wiped", min(lost), 0.0, 0.0),
        remedy="Clear gradients after the update, not before it.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "gradient_wiped",
    Stage.GRADIENT,
    "gradients are zeroed before the update",
    judge,
    ("handling",),
    overlaps=("wrong_backward", "never_steps"),
)
