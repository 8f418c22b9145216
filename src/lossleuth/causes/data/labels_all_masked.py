"""A loss is taken over no target at all.

What it means
    Every target of a batch is the one that counts for nothing, so that the loss is a mean over an
    empty set: NaN, or 0 where somebody replaced it.

Why training fails
    One NaN spoils every weight. Where it is replaced, the batch teaches nothing and nobody knows.

How it is judged
    Supervised targets are counted in every step. A count of 0 is the fault; it is proven where the
    loss of such a step is not finite, or where most steps are like that. A program that counts
    nothing and goes on with a finite loss, now and then, is left in peace.

How to fix
    Leave such batches out, or find out why all labels are masked: a template that does not match,
    texts that are too short after the prompt, a truncation that cuts the answer away.

When this verdict is wrong
    When a program leaves empty batches out by itself after the loss was taken.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import first_place, share
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

# Of the steps, where their loss stays finite.
MOST = 0.5


def judge(evidence: Evidence) -> Judgement:
    """Count targets, step by step."""
    unfinished = evidence.ending.get("unfinished") or {}
    counted = [s for s in evidence.steps if s.get("supervised") is not None]
    total = len(counted) + (unfinished.get("supervised") is not None)
    if not total:
        return untested("no loss with targets was seen")
    empty = [s for s in counted if s["supervised"] == 0 or s.get("unsupervised")]
    losses = [s.get("loss") for s in empty]
    bad = any(isinstance(x, float) and not math.isfinite(x) for x in losses)
    micro = sum(int(s.get("unsupervised") or 0) for s in counted)
    late = int(unfinished.get("unsupervised") or 0)
    if late:
        bad = bad or any(
            isinstance(x, float) and not math.isfinite(x) for x in unfinished.get("losses", ())
        )
    found = max(micro, len(empty)) + late
    if not found:
        return refuted(
            f"every one of {len(counted)} steps has supervised targets, "
            f"{min((s['supervised'] for s in counted), default=0)} or more"
        )
    because = (
        f"{found} losses were taken over no target at all"
        + (f", the first at step {empty[0]['step']}" if empty else "")
        + "; a loss needs at least 1."
    )
    where = _where(evidence, {s["step"] for s in empty})
    wrongness = Wrongness("losses over no target", float(found), 0.0, 0.0)
    remedy = "Leave out batches without a supervised target; see why their labels are all masked."
    if bad or share(len(empty) + bool(late), total) > MOST:
        return Judgement(Status.PROVEN, because, where, wrongness, remedy=remedy)
    return Judgement(Status.BENIGN, because, where, wrongness, remedy=remedy)


def _where(evidence: Evidence, empty: set[int]) -> Where | None:
    """Where targets were masked on a step that has none left, else where they are compared."""
    places = [
        (w.get("step") in empty, w["target_places"])
        for w in evidence.windows
        if w.get("target_places")
    ]
    filled = first_place(p for is_empty, t in places if is_empty for p in t.get("filled", ()))
    return filled or first_place(t["loss"] for _, t in places)


CAUSE = Cause(
    "labels_all_masked",
    Stage.DATA,
    "a loss is taken over no target at all",
    judge,
    ("targets",),
    voids_trials=True,
)
