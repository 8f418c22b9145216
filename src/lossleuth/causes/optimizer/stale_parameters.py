"""The optimizer holds other tensors than the model uses.

What it means
    The model was made, copied, moved or replaced after the optimizer took its parameters: it
    updates tensors that nobody looks at any more.

Why training fails
    The weights in use never change.

How it is judged
    Tensors in the optimizer that get no gradient and have the shapes of those that get one and are
    in no optimizer. Whether it matters is tried: the same run with those in use trained.

How to fix
    Make the optimizer last, from the model that is trained.

When this verdict is wrong
    When a copy is trained elsewhere on purpose; the trial decides.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import decided_by_trial, optimizer_place
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

CURE = Change.of("add_missing_parameters")


def judge(evidence: Evidence) -> Judgement:
    """Compare what is held with what is used."""
    known = [c for c in evidence.probed("coverage") if math.isfinite(c["missing_share"])]
    if not known:
        return untested("no step with a backward pass and an update was recorded")
    last = known[-1]
    if not last["missing"] or not (last["unused_match_missing"] or last["unused"]):
        return refuted(f"what the optimizers hold is what gets gradients ({last['held']} tensors)")
    missing = last["missing"]
    because = (
        f"{len(missing)} tensors in use get {last['missing_share']:.0%} of the gradient and are in "
        f"no optimizer, which holds {last['held']} tensors, {last['unused']} of them not in use."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        optimizer_place(evidence),
        Wrongness("share of the gradient without update", last["missing_share"], 0.0, 0.0),
        remedy="Make the optimizer from the parameters of the model that is trained.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "stale_parameters",
    Stage.OPTIMIZER,
    "the optimizer holds other tensors than the model uses",
    judge,
    ("coverage",),
    overlaps=("unregistered_parameters",),
)
