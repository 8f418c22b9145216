"""The same few batches again and again, where the data holds more.

What it means
    Batches repeat within a few steps although the data that they are taken from is far larger: a
    loader that is started anew each step, a seed that is set inside the loop, an index that never
    advances.

Why training fails
    The loss of these batches falls to nothing; the model never sees all other text.

How it is judged
    Fingerprints of all batches are compared. The fault is there if few are distinct and what they
    are taken from holds many times as many tokens.

How to fix
    Make the iterator once per epoch, set seeds once per run, advance the index.

When this verdict is wrong
    When one batch is trained on deliberately, to see whether the model can memorise it.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place
from lossleuth.findings.data import DataSize, TargetLines
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_BATCHES = Limit(12, "fewest batches that have to be seen")
MAX_DISTINCT_SHARE = Limit(0.25, "largest share of the batches that are distinct")
MIN_DATA_RATIO = Limit(4, "least tokens in the data, over those in distinct batches")


def judge(evidence: Evidence) -> Judgement:
    """Count distinct batches and compare with the size of the data."""
    batches = [step.batch for step in evidence.steps if step.batch]
    if len(batches) < MIN_BATCHES:
        return untested(f"only {len(batches)} batches were seen")
    distinct = len(set(batches))
    if distinct > MAX_DISTINCT_SHARE * len(batches):
        return refuted(f"{distinct} of {len(batches)} batches are distinct")
    seen = distinct * max((step.tokens for step in evidence.steps if step.tokens), default=0)
    held = max((size.tokens for size in evidence.all(DataSize)), default=0)
    if not held:
        return untested(
            f"{distinct} of {len(batches)} batches are distinct, and the size of the data is not "
            "known"
        )
    if held < MIN_DATA_RATIO * seen:
        return refuted(
            f"{distinct} distinct batches hold {seen} tokens, and the data only {held}: small data"
        )
    because = (
        f"Only {distinct} of {len(batches)} batches are distinct: {seen} tokens, where the data "
        f"holds {held}."
    )
    place = first_place(
        place
        for lines in evidence.all(TargetLines)
        for place in (*lines.targets[::-1], *lines.passed, lines.loss)
    )
    return Judgement(
        Status.PROVEN,
        because,
        place,
        Wrongness("distinct batches", float(distinct), float(len(batches)), 0.0),
        remedy="Go on through the data: one iterator per epoch, seeds set once.",
    )


CAUSE = Cause(
    "repeated_batch",
    Stage.DATA,
    "the same few batches again and again",
    judge,
    # The size of the data is not needed: many distinct batches are sound without it.
    uses=(DataSize, TargetLines),
    limits=(MIN_BATCHES, MAX_DISTINCT_SHARE, MIN_DATA_RATIO),
    relies_on=(
        "lookups",
        "data loaders",
    ),
)
