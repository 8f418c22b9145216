"""The update goes up the gradient.

What it means
    A sign is wrong: the loss is negated, the optimizer maximises, or the update is added where it
    should be subtracted.

Why training fails
    The loss rises, step by step.

How it is judged
    The cosine between the update and the negative gradient, and between what is differentiated and
    cross-entropy at the logits: one of them is negative on every recorded step. Whether it matters
    is tried: the same run with every update turned around.

How to fix
    Correct the sign of the loss, of the optimizer's `maximize`, or of the update.

When this verdict is wrong
    When something is meant to be maximised, as by an adversary; the trial decides.
"""

from __future__ import annotations

from lossleuth.causes.edits import minimised
from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    backward_place,
    decided_by_trial,
    finite,
    library_place,
    rule_place,
    update_place,
)
from lossleuth.findings.gradient import LogitGradient
from lossleuth.findings.update import Descent, UpdateLines
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# A little upwards, now and then, is the work of momentum.
MAX_COSINE = Limit(-0.05, "largest cosine with the way down that counts as going up")
CURE = Change.of("scale_lr", factor=-1.0)


def judge(evidence: Evidence) -> Judgement:
    """Look at both signs on every recorded step."""
    steps = finite(descent.cosine for descent in evidence.all(Descent))
    logits = finite(gradient.cosine for gradient in evidence.all(LogitGradient))
    if not steps and not logits:
        return untested("no step with a gradient and an update was recorded")
    up = bool(steps) and max(steps) < MAX_COSINE
    negated = bool(logits) and max(logits) < MAX_COSINE
    if up == negated:
        return refuted(
            f"the update and the negative gradient have a cosine of {_shown(steps)}, the loss and "
            f"cross-entropy one of {_shown(logits)}; above 0 is down"
        )
    value = max(steps) if up else max(logits)
    what = "the update has a cosine with the negative gradient"
    if negated:
        what = "what is differentiated has a cosine with cross-entropy's gradient at the logits"
    because = f"On every recorded step {what} of {value:.3f} or less; it should be above 0."
    where = backward_place(evidence) if negated else library_place(evidence)
    fault = Judgement(
        Status.SUSPECTED,
        because,
        where or rule_place(evidence) or update_place(evidence),
        Wrongness("cosine with the way down", value, 1.0, 1e-6),
        remedy="Turn the sign of the loss or of the update around.",
    )
    return decided_by_trial(evidence, fault, [CURE])


def _shown(values: list[float]) -> str:
    return f"{max(values):.3f}" if values else "unknown"


CAUSE = Cause(
    "ascent",
    Stage.OPTIMIZER,
    "the update goes up the gradient",
    judge,
    uses=(Descent, LogitGradient, UpdateLines),
    limits=(MAX_COSINE, MIN_EFFECT_NATS),
    overlaps=("loss_disconnected", "update_rule_wrong", "wrong_backward"),
    fix=minimised,
)
