"""Backward passes without an update."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import check_proven, check_refuted, check_untested, steps

from lossleuth.causes.optimizer.never_steps import judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import Ending, Made, Unfinished

IDLE = {"idle_optimizers": [Made("train.py:5")]}
BACKWARD = {"places": {"backward": "train.py:19"}}
CALL = {"step_call": "train.py:22"}


def unfinished(backwards: int, how: str = "end of script", **given: Any) -> Evidence:
    return Evidence(ending=Ending(how=how, unfinished=Unfinished(backwards, **given)))


@pytest.mark.parametrize(
    ("given", "where"),
    [
        (IDLE, Where("train.py", 5)),
        (IDLE | BACKWARD, Where("train.py", 19)),
        (IDLE | BACKWARD | CALL, Where("train.py", 22)),
        ({}, None),
    ],
)
def test_many_backward_passes_and_no_update_are_proven(given: Any, where: Where | None) -> None:
    check_proven(judge(unfinished(40, **given)), where, "0 updates in 40 backward passes")


def test_no_bit_of_a_parameter_changed_is_said() -> None:
    judged = judge(unfinished(40, moved=(0, 7)))
    check_proven(judged, None, "No bit of 7 parameters has changed")


@pytest.mark.parametrize("backwards", [2, 40])
def test_parameters_that_move_refute_it_though_no_update_was_seen(backwards: int) -> None:
    check_refuted(judge(unfinished(backwards, moved=(3, 7))), "3 of 7 parameters have changed")


def test_a_scaler_that_skips_every_time_is_named() -> None:
    skipped = steps(40, updates=0, skipped_by=[["AdamW"]] * 40)
    evidence = Evidence(steps=skipped, ending=Ending(how="end of script"))
    check_proven(judge(evidence), None, "40 skipped")


@pytest.mark.parametrize("updates", [[1] * 40, [0] * 39 + [1]], ids=["each", "accumulated"])
def test_updates_now_and_then_are_sound(updates: list[int]) -> None:
    evidence = Evidence(steps=steps(40, updates=updates))
    check_refuted(judge(evidence), f"{sum(updates)} updates in 40")


@pytest.mark.parametrize("evidence", [Evidence(), unfinished(31)])
def test_fewer_batches_than_a_run_may_accumulate_show_nothing(evidence: Evidence) -> None:
    check_untested(judge(evidence), "backward passes were seen")


@pytest.mark.parametrize("how", ["stopped", "exception"])
def test_a_run_that_did_not_come_to_its_end_may_accumulate_over_more(how: str) -> None:
    judged = judge(unfinished(1000, how))
    assert judged.status is Status.SUSPECTED
    assert "0 updates in 1000" in judged.because and "may accumulate" in judged.because


def test_no_run_accumulates_over_so_many_passes() -> None:
    check_proven(judge(unfinished(1024, "stopped")), None, "0 updates in 1024")
