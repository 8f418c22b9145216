"""When a line will read its number again."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lossleuth.observe.steps.reading_rhythm import ENOUGH, MAX_LINES, ReadingRhythm


def due(reads: Iterable[int], steps: int = 400, *, records: bool = True) -> list[int]:
    """The steps that are due in a run that reads at some steps, and records those that are due."""
    rhythm, found, read = ReadingRhythm(), list[int](), set(reads)
    for step in range(steps):
        if rhythm.is_due(step):
            found.append(step)
        if step in read:
            rhythm.read("train.py:9", step, recorded=records and step in found)
    return found


@pytest.mark.parametrize(("first", "every"), [(59, 60), (0, 50), (9, 10)])
def test_a_line_that_reads_every_so_many_steps_is_foreseen_until_enough_is_known(
    first: int, every: int
) -> None:
    foreseen = [first + every * n for n in range(2, 2 + ENOUGH)]
    assert due(range(first, 400, every)) == foreseen


def test_it_is_foreseen_again_where_the_recording_was_not_made() -> None:
    assert due(range(59, 400, 60), records=False) == list(range(179, 400, 60))


@pytest.mark.parametrize("reads", [range(400), [7], []], ids=["each step", "once", "never"])
def test_without_a_rhythm_nothing_is_due(reads: Iterable[int]) -> None:
    assert due(reads) == []


def test_a_rhythm_that_changes_is_followed() -> None:
    assert due([10, 20, 50, 80], records=False) == [30, 80, 110]


def test_a_line_that_reads_twice_in_a_step_reads_once() -> None:
    rhythm = ReadingRhythm()
    for step in (10, 10, 20, 20):
        rhythm.read("train.py:9", step)
    assert rhythm.is_due(30)


def test_a_program_with_many_lines_is_followed_in_the_first_of_them() -> None:
    rhythm = ReadingRhythm()
    for step in (10, 20):
        for line in range(MAX_LINES + 1):
            rhythm.read(f"train.py:{line}", step + line)
    assert rhythm.is_due(30 + MAX_LINES - 1) and not rhythm.is_due(30 + MAX_LINES)
