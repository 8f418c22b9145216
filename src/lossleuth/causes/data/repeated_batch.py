"""The same few batches again and again, where the data holds more.

What it means
    Batches repeat within a few steps although the data that they are taken from is far larger: a
    loader that is started anew each step, a seed that is set inside the loop, an index that never
    advances.

Why training fails
    The loss of these batches falls to nothing; the model never sees all other text.

How it is judged
    Fingerprints of all batches are compared. The fault is there if few are distinct and what they
    are taken from holds many times as many tokens. It may also begin late: if a handful of batches
    is all that the last part of the run is made of, where the data holds a hundred times as many.

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
MIN_LATE = Limit(50, "fewest steps of a handful of batches at the end, and of others before")
MIN_LATE_SHARE = Limit(0.2, "least share of the run that such an end makes up")
MAX_HANDFUL = Limit(4, "most batches that are a handful")
MIN_LATE_RATIO = Limit(100, "least tokens in the data, over those in that handful")


def judge(evidence: Evidence) -> Judgement:
    """Count distinct batches and compare with the size of the data."""
    batches = [step.batch for step in evidence.steps if step.batch]
    if len(batches) < MIN_BATCHES:
        return untested(f"only {len(batches)} batches were seen")
    distinct = len(set(batches))
    late = _late(evidence, batches)
    if late is not None:
        return late
    if distinct > MAX_DISTINCT_SHARE * len(batches):
        return refuted(f"{distinct} of {len(batches)} batches are distinct")
    seen, held = distinct * _tokens(evidence), _held(evidence)
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
    return _fault(evidence, because, distinct, len(batches))


def _late(evidence: Evidence, batches: list[str]) -> Judgement | None:
    """A handful of batches that the last part of the run is made of, if it is."""
    last = set(batches[-int(MIN_LATE) :])
    length = next((i for i, one in enumerate(reversed(batches)) if one not in last), len(batches))
    before = batches[: len(batches) - length]
    seen, held = len(last) * _tokens(evidence), _held(evidence)
    if len(last) > MAX_HANDFUL or length < MIN_LATE_SHARE * len(batches) or len(before) < MIN_LATE:
        return None
    if 2 * len(set(before)) < len(before) or not held >= MIN_LATE_RATIO * seen > 0:
        return None
    because = (
        f"The last {length} of {len(batches)} steps have {len(last)} distinct batches: {seen} "
        f"tokens, where the data holds {held}; the {len(before)} steps before have "
        f"{len(set(before))}."
    )
    return _fault(evidence, because, len(last), length)


def _tokens(evidence: Evidence) -> int:
    return max((step.tokens for step in evidence.steps if step.tokens), default=0)


def _held(evidence: Evidence) -> int:
    return max((size.tokens for size in evidence.all(DataSize)), default=0)


def _fault(evidence: Evidence, because: str, distinct: int, batches: int) -> Judgement:
    place = first_place(
        place
        for lines in evidence.all(TargetLines)
        for place in (*lines.targets[::-1], *lines.passed, lines.loss)
    )
    return Judgement(
        Status.PROVEN,
        because,
        place,
        Wrongness("distinct batches", float(distinct), float(batches), 0.0),
        remedy="Go on through the data: one iterator per epoch, seeds set once.",
    )


CAUSE = Cause(
    "repeated_batch",
    Stage.DATA,
    "the same few batches again and again",
    judge,
    # The size of the data is not needed: many distinct batches are sound without it.
    uses=(DataSize, TargetLines),
    limits=(
        MIN_BATCHES,
        MAX_DISTINCT_SHARE,
        MIN_DATA_RATIO,
        MIN_LATE,
        MIN_LATE_SHARE,
        MAX_HANDFUL,
        MIN_LATE_RATIO,
    ),
    relies_on=(
        "lookups",
        "data loaders",
    ),
)
