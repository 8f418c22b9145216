"""The optimizer holds other tensors than the model uses.

What it means
    The model was made, copied, moved or replaced after the optimizer took its parameters: the
    optimizer updates tensors that the model no longer uses.

Why training fails
    The weights in use never change.

How it is judged
    Tensors in use get a gradient and are in no optimizer, while the optimizer holds tensors that
    are not in use, or that get no gradient and have the same shapes. Whether it matters is tried:
    the same run with those in use trained.

How to fix
    Make the optimizer last, from the model that is trained.

When this verdict is wrong
    When a copy is trained elsewhere on purpose; the trial decides.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial, optimizer_place
from lossleuth.findings.update import Coverage
from lossleuth.types.cause import Cause, always
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

CURE = Change.of("add_missing_parameters")


def judge(evidence: Evidence) -> Judgement:
    """Compare what is held with what is used."""
    known = [found for found in evidence.all(Coverage) if math.isfinite(found.missing_share)]
    if not known:
        return untested("no finite gradient was recorded")
    last = known[-1]
    if not last.missing or not (last.unused_match_missing or last.unused):
        return refuted(f"what the optimizers hold is what gets gradients ({last.held} tensors)")
    because = (
        f"{len(last.missing)} tensors in use get {last.missing_share:.0%} of the gradient and are "
        f"in no optimizer; optimizers hold {last.held} tensors, {last.unused} of them not in use."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        optimizer_place(evidence),
        Wrongness("share of the gradient without update", last.missing_share, 0.0, 0.0),
        remedy="Make the optimizer from the parameters of the model that is trained.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "stale_parameters",
    Stage.OPTIMIZER,
    "the optimizer holds other tensors than the model uses",
    judge,
    needs=(Coverage,),
    limits=(MIN_EFFECT_NATS,),
    overlaps=("unregistered_parameters",),
    is_core=always,
)
