"""The optimizer never steps.

What it means
    Gradients are computed, batch after batch, and no update is ever made: a condition that is never
    true, a counter that is advanced twice, a scaler that skips every time.

Why training fails
    Weights stay as they were.

How it is judged
    Backward passes and updates are counted, and the bits of all parameters are added up before and
    after. Many backward passes, no update and no changed bit until the script's own end, or more
    passes than a run accumulates over: proven by that alone. Where the run was stopped before, it
    is suspected. Where bits have changed, something has made updates that were not seen.

How to fix
    Look at the condition around `optimizer.step()`; print how often it is called.

When this verdict is wrong
    When a run accumulates over more batches than were observed.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place
from lossleuth.types.cause import Cause, Limit, always
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested
from lossleuth.types.observed import Unfinished

MIN_BACKWARDS = Limit(32, "fewest backward passes of a whole run that should lead to an update")
MIN_UNENDED = Limit(
    1024, "fewest backward passes without an update that no run accumulates over, if it goes on"
)


def judge(evidence: Evidence) -> Judgement:
    """Count backward passes and updates."""
    unfinished = evidence.ending.unfinished or Unfinished()
    made = sum(step.updates for step in evidence.steps)
    skipped = sum(len(step.skipped_by or ()) for step in evidence.steps)
    passes = unfinished.backwards + sum(step.backwards for step in evidence.steps)
    moved, known = unfinished.moved or (0, 0)
    if not made and moved:
        return refuted(f"no update was seen, but {moved} of {known} parameters have changed")
    if not made and passes >= MIN_BACKWARDS:
        how = f", {skipped} skipped" if skipped else ""
        because = f"0 updates in {passes} backward passes{how}; each should lead to one in the end."
        if known:
            because += f" No bit of {known} parameters has changed."
        idle = [optimizer.place for optimizer in unfinished.idle_optimizers]
        backward = unfinished.places.get("backward")
        is_sure = evidence.ending.is_own or passes >= MIN_UNENDED
        if not is_sure:
            because += " The run was stopped there, and may accumulate over more."
        return Judgement(
            Status.PROVEN if is_sure else Status.SUSPECTED,
            because,
            first_place([unfinished.step_call, backward, *idle]),
            Wrongness("updates", 0.0, float(passes), 0.0),
            remedy="See why optimizer.step() is not reached.",
        )
    if not made:
        return untested(f"only {passes} backward passes were seen")
    return refuted(f"{made} updates in {passes} backward passes")


CAUSE = Cause(
    "never_steps",
    Stage.OPTIMIZER,
    "the optimizer never steps",
    judge,
    limits=(MIN_BACKWARDS, MIN_UNENDED),
    overlaps=("gradient_wiped", "lr_zero"),
    voids_trials=True,
    relies_on=("loss scaling",),
    is_core=always,
)
