"""Updates that the type of the weights loses."""

from __future__ import annotations

import math

import pytest
from evidence import OPTIMIZER, check_refuted, check_trial, check_untested, seen, steps, tried

from lossleuth.causes.precision.update_swallowed import WANTS, judge, may_be_cured_by_rate
from lossleuth.causes.reasoning import MIN_EFFECT_NATS
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status
from lossleuth.types.observed import Readings


def lost(*steps: list[float], made: float = 1e-4) -> Evidence:
    """Share lost of a large and of a small tensor, step by step."""
    updates = [[made] * len(step) for step in steps]
    readings = Readings(swallowed_share=steps, update_rms=updates)
    return seen(readings=readings, sizes=[900, 100], parameters=["tok", "head"])


def test_updates_that_are_mostly_lost_are_suspected_until_kept() -> None:
    fault = lost([0.9, 0.0], [0.9, 0.0], [0.0, 0.0])
    check_trial(judge, fault, WANTS, OPTIMIZER, min_effect=MIN_EFFECT_NATS)
    assert "81%" in judge(fault).because


@pytest.mark.parametrize(
    "evidence",
    [lost([0.0, 0.0]), lost([0.0, 1.0]), lost([0.1, 0.1], [0.1, 0.1], [1.0, 1.0])],
    ids=["nothing", "a small tensor that hardly moves", "one step"],
)
def test_updates_that_arrive_are_sound(evidence: Evidence) -> None:
    check_refuted(judge(evidence), "in the median")


def test_tensors_without_a_reading_are_left_out() -> None:
    assert judge(lost([0.9, math.nan])).status is Status.SUSPECTED
    check_refuted(judge(lost([math.nan, 0.01])), "1.0e-02")


@pytest.mark.parametrize(
    "evidence", [Evidence(), lost([math.nan, math.nan]), lost([0.9, 0.9], made=math.nan)]
)
def test_without_readings_it_is_untested(evidence: Evidence) -> None:
    check_untested(judge(evidence), "was not measured")


def test_at_a_rate_of_zero_there_is_nothing_to_be_lost() -> None:
    readings = Readings(swallowed_share=[[1.0]] * 4, update_rms=[[0.0]] * 4)
    evidence = seen(steps=steps(4, lr=0.0), readings=readings, sizes=[100], parameters=["w"])
    check_untested(judge(evidence), "rate of 0")


def test_a_rate_may_make_up_for_what_is_lost_until_that_is_known_to_be_harmless() -> None:
    fault = lost([0.2, 0.2], [0.2, 0.2])
    assert "20% of an update" in (may_be_cured_by_rate(fault) or "")
    assert may_be_cured_by_rate(tried(fault, WANTS[0], 0.5)) is not None
    assert may_be_cured_by_rate(tried(fault, WANTS[0], 0.0)) is None
    assert may_be_cured_by_rate(lost([0.0, 0.0])) is None
