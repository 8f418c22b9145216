"""The optimizer never steps.

What it means
    Gradients are computed, batch after batch, and no update is ever made: a condition that is never
    true, a counter that is advanced twice, a scaler that skips every time.

Why training fails
    Weights stay as they were.

How it is judged
    Backward passes and updates are counted, and the bits of all parameters are added up before and
    after. Many of the first, none of the second and no bit changed is the fault; proven by that
    alone. Where bits have changed, something has made updates that were not seen.

How to fix
    Look at the condition around `optimizer.step()`; print how often it is called.

When this verdict is wrong
    When a run accumulates over more batches than were observed.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

FEWEST = 32


def judge(evidence: Evidence) -> Judgement:
    """Count backward passes and updates."""
    unfinished = evidence.ending.get("unfinished") or {}
    backwards = int(unfinished.get("backwards") or 0)
    made = sum(int(s.get("updates") or 0) for s in evidence.steps)
    skipped = sum(len(s.get("skipped_by") or ()) for s in evidence.steps)
    passes = backwards + sum(int(s.get("backwards") or 0) for s in evidence.steps)
    moved, known = unfinished.get("moved") or (0, 0)
    if not made and moved:
        return refuted(f"no update was seen, but {moved} of {known} parameters have changed")
    if not made and passes >= FEWEST:
        how = f", {skipped} skipped" if skipped else ""
        because = f"0 updates in {passes} backward passes{how}; each should lead to one in the end."
        if known:
            because += f" No bit of {known} parameters has changed."
        idle = [o.get("place") for o in unfinished.get("idle_optimizers") or ()]
        places = unfinished.get("places") or {}
        return Judgement(
            Status.PROVEN,
            because,
            first_place([unfinished.get("step_call"), places.get("backward"), *idle]),
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
    ("updates",),
    overlaps=("gradient_wiped", "lr_zero"),
    voids_trials=True,
)
