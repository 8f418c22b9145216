"""The same few batches again and again, where the data holds more.

What it means
    Batches repeat within a few steps although the data that they are taken from is far larger: a
    loader that is started anew each step, a seed that is set inside the loop, an index that is not
    moved on.

Why training fails
    The loss of these batches falls to nothing; all other text is never seen.

How it is judged
    Fingerprints of all batches are compared. The fault is there if few are distinct and what they
    are taken from holds many times as many tokens.

How to fix
    Make the iterator once per epoch, set seeds once per run, advance the index.

When this verdict is wrong
    When one batch is trained on deliberately, to see whether it can be learnt by heart.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

FEWEST_STEPS = 12
# Distinct batches per step, and how many times more the data has to hold.
FEW, FAR_MORE = 0.25, 4


def judge(evidence: Evidence) -> Judgement:
    """Count distinct batches and compare with the size of the data."""
    batches = [s["batch"] for s in evidence.steps if s.get("batch")]
    if len(batches) < FEWEST_STEPS:
        return untested(f"only {len(batches)} batches were seen")
    distinct = len(set(batches))
    if distinct > FEW * len(batches):
        return refuted(f"{distinct} of {len(batches)} batches are distinct")
    tokens = [int(s["tokens"]) for s in evidence.steps if s.get("tokens")]
    seen = distinct * max(tokens, default=0)
    held = max((int(x) for x in evidence.probed("supply")), default=0)
    loaders = [int(x) for s in evidence.steps for x in [s.get("loader_batches")] if x]
    if loaders and max(loaders) >= FAR_MORE * distinct:
        held = max(held, max(loaders) * max(tokens, default=0))
    if not held:
        return untested(
            f"{distinct} of {len(batches)} batches are distinct, and how much data there is is not "
            "known"
        )
    if held < FAR_MORE * seen:
        return refuted(
            f"{distinct} distinct batches hold {seen} tokens, and the data only {held}: small data"
        )
    because = (
        f"Only {distinct} of {len(batches)} batches are distinct: {seen} tokens, where the data "
        f"holds {held}."
    )
    place = first_place(
        p
        for t in evidence.probed("target_places")
        for p in (*t["targets"][::-1], *t["passed"], t["loss"])
    )
    return Judgement(
        Status.PROVEN,
        because,
        place,
        Wrongness("distinct batches", float(distinct), float(len(batches)), 0.0),
        remedy="Move on through the data: one iterator per epoch, seeds set once.",
    )


CAUSE = Cause(
    "repeated_batch", Stage.DATA, "the same few batches again and again", judge, ("batches",)
)
