"""Optimizers that forget."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from evidence import OPTIMIZER, check_refuted, check_trial, check_untested, seen, steps

from lossleuth.causes.optimizer.optimizer_recreated import CAUSE, CURES, judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Made, Readings, RunSettings


def remembers(ages: Sequence[float]) -> Evidence:
    """A run whose state has counted so many updates of a weight, and none of another."""
    return seen(
        steps=steps(len(ages)),
        readings=Readings(
            age=[[math.nan, age] for age in ages], update_rms=[[math.nan, 0.1]] * len(ages)
        ),
        settings=RunSettings(optimizers=[Made("train.py:5", [])]),
    )


@pytest.mark.parametrize(
    ("ages", "times"),
    [([1.0] * 20, 19), ([1.0, 2.0, 3.0, 4.0] * 5, 4)],
    ids=["every step", "every fourth"],
)
def test_a_memory_that_begins_again_is_suspected_until_a_trial_decides(
    ages: list[float], times: int
) -> None:
    check_trial(CAUSE.judged, remembers(ages), CURES, OPTIMIZER)
    assert f"at {times} of 20 steps" in judge(remembers(ages)).because


@pytest.mark.parametrize(
    "ages",
    [list(range(1, 21)), [*range(1, 11), *range(1, 11)], list(range(501, 521))],
    ids=["it lasts", "a new part of the training", "resumed"],
)
def test_a_memory_that_lasts_is_sound(ages: list[float]) -> None:
    check_refuted(judge(remembers(ages)), "memory began again at")


@pytest.mark.parametrize("evidence", [Evidence(), remembers([1.0] * 4), remembers([math.nan] * 20)])
def test_without_a_count_it_is_untested(evidence: Evidence) -> None:
    check_untested(judge(evidence), "count of updates")


def test_two_optimizers_that_take_turns_and_weights_without_an_update_keep_their_memory() -> None:
    """The first weight is updated twice as often; the last only in the first step."""
    ages = [[1.0 + step, 1.0 + step // 2, 1.0] for step in range(20)]
    updates = [[0.1, 0.1 * (step % 2 == 0), 0.1 * (step == 0)] for step in range(20)]
    taking_turns = seen(steps=steps(20), readings=Readings(age=ages, update_rms=updates))
    check_refuted(judge(taking_turns), "at 0 of 20 steps")
