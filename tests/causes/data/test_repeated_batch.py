"""The same few batches again and again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import LOSS, TARGET_LINES, check_proven, check_refuted, check_untested, seen, steps

from lossleuth.causes.data.repeated_batch import CAUSE, judge
from lossleuth.findings.data import DataSize, TargetLines
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where


def batches(
    distinct: int,
    count: int = 40,
    held: int = 0,
    lines: TargetLines = TARGET_LINES,
    **scalars: Any,
) -> Evidence:
    names = [f"batch {i % distinct}" for i in range(count)]
    taken = steps(count, **{"batch": names, "tokens": 500, **scalars})
    return seen(lines, *([DataSize(held)] if held else []), steps=taken)


def test_few_batches_of_much_data_are_proven() -> None:
    check_proven(judge(batches(2, held=100_000)), LOSS, "2 of 40", "1000 tokens", "100000")


def test_the_line_nearest_to_the_targets_is_named() -> None:
    lines = replace(TARGET_LINES, targets=("data.py:3", "data.py:8"))
    judgement = judge(batches(1, held=100_000, lines=lines))
    check_proven(judgement, Where("data.py", 8))


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (batches(40, held=100_000), "40 of 40"),
        (batches(11, held=100_000), "11 of 40"),
        (batches(1, held=500), "small data"),
        (batches(10, held=10_000), "small data"),
    ],
    ids=["all distinct", "enough distinct", "one batch on purpose", "epochs of small data"],
)
def test_distinct_batches_and_small_data_are_no_fault(evidence: Evidence, words: str) -> None:
    check_refuted(judge(evidence), words)


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "only 0 batches"),
        (batches(1, count=8), "only 8"),
        (batches(1), "is not known"),
    ],
)
def test_without_the_size_of_the_data_it_is_untested(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def test_the_largest_data_and_the_largest_batch_count() -> None:
    evidence = batches(2, tokens=[100, 500] * 20)
    recorded = [RecordedStep(i, [DataSize(held)]) for i, held in enumerate((10, 100_000, 10))]
    check_proven(judge(replace(evidence, recorded=recorded)), None, "1000 tokens", "100000")


def late(handful: int, end: int, before: int = 120, held: int = 10**7) -> Evidence:
    """Distinct batches, then the same few to the end."""
    names = [f"batch {i}" for i in range(before)] + [f"late {i % handful}" for i in range(end)]
    taken = steps(before + end, batch=names, tokens=500)
    return seen(TARGET_LINES, DataSize(held), steps=taken)


def test_a_handful_of_batches_to_the_end_is_proven_however_many_came_before() -> None:
    check_proven(
        judge(late(1, 60)), LOSS, "last 60 of 180 steps have 1 distinct", "120 steps before"
    )


@pytest.mark.parametrize(
    "evidence",
    [late(5, 60), late(1, 20), late(1, 60, before=600), late(1, 60, held=20_000)],
    ids=["more than a handful", "too short", "a small part", "little data"],
)
def test_an_end_that_may_be_meant_is_no_fault(evidence: Evidence) -> None:
    assert judge(evidence).status is Status.REFUTED
