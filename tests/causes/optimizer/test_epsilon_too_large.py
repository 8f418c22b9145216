"""An epsilon beside which the second moment is nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest
from evidence import OPTIMIZER, check_refuted, check_trial, check_untested, seen, tried

from lossleuth.causes.optimizer.epsilon_too_large import (
    CAUSE,
    CURE,
    MIN_GAIN,
    MIN_SHARE,
    USUAL_EPSILON,
    judge,
)
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status
from lossleuth.types.observed import Made, ParameterGroup, Readings, RunSettings

SIZES = [900, 100]


def run(
    shares: list[float],
    *epsilons: Any,
    zeros: tuple[float, ...] = (0.0, 0.0),
    count: int = 20,
) -> Evidence:
    """A run whose parameters are below epsilon to these shares, in every step."""
    groups = [ParameterGroup(betas=(0.9, 0.999), eps=epsilon) for epsilon in epsilons]
    return seen(
        settings=RunSettings(optimizers=[Made("train.py:5", groups)]),
        readings=Readings(epsilon_share=[shares] * count, grad_zero_share=[list(zeros)] * count),
        sizes=SIZES,
        parameters=["table", "head"],
    )


DEAD = run([1.0, 1.0], 1.0)


def test_elements_below_epsilon_are_suspected_until_a_trial_decides() -> None:
    check_trial(CAUSE.judged, DEAD, [CURE], OPTIMIZER, min_effect=MIN_GAIN)
    because = judge(DEAD).because
    assert "Epsilon is 1," in because and "100% of the elements" in because and "1e-08" in because


def test_the_cure_is_the_largest_epsilon_that_is_never_blamed() -> None:
    assert dict(CURE.options) == {"value": float(USUAL_EPSILON)}


@pytest.mark.parametrize(
    ("shares", "status"),
    [
        ([1.0, 0.0], Status.SUSPECTED),
        ([0.0, 1.0], Status.REFUTED),
        ([0.9, 0.9], Status.SUSPECTED),
        ([0.89, 0.89], Status.REFUTED),
    ],
)
def test_tensors_count_by_their_elements(shares: list[float], status: Status) -> None:
    assert MIN_SHARE == 0.9
    assert judge(run(shares, 1e-3)).status is status


def test_the_median_of_all_steps_decides() -> None:
    readings = Readings(
        epsilon_share=[[1.0, 1.0]] * 9 + [[0.0, 0.0]] * 11, grad_zero_share=[[0.0, 0.0]] * 20
    )
    groups = [Made("train.py:5", [ParameterGroup(eps=0.1)])]
    mixed = seen(settings=RunSettings(optimizers=groups), readings=readings, sizes=SIZES)
    check_refuted(judge(mixed), "0.0%", "adapts")


@pytest.mark.parametrize("epsilon", [1e-8, 1e-10, 0.0])
def test_torchs_default_is_not_blamed_however_small_gradients_are(epsilon: float) -> None:
    check_refuted(judge(run([1.0, 1.0], epsilon)), f"{epsilon:.3g}", "1e-08")


@pytest.mark.parametrize("epsilon", [1e-6, 1e-5])
def test_a_larger_epsilon_that_is_small_beside_the_second_moment_is_no_fault(
    epsilon: float,
) -> None:
    check_refuted(judge(run([0.3, 0.1], epsilon)), f"{epsilon:.3g}", "28.0%", "adapts")


def test_rows_that_were_never_seen_are_not_held_against_it() -> None:
    rows = (0.99, 0.0)
    check_refuted(judge(run([0.99, 0.0], 1e-6, zeros=rows)), "0.0%", "adapts")
    assert judge(run([1.0, 1.0], 1e-6, zeros=rows)).status is Status.SUSPECTED


def test_where_no_element_has_a_gradient_nothing_is_known() -> None:
    check_untested(judge(run([1.0, 1.0], 1.0, zeros=(1.0, 1.0))), "0 steps")


def test_an_epsilon_that_learns_all_the_same_may_still_cost_much() -> None:
    assert judge(tried(DEAD, CURE, 1.0, start=5.0, without=3.0)).status is Status.PROVEN
    assert judge(tried(DEAD, CURE, 0.05, start=5.0, without=3.0)).status is Status.BENIGN


def test_an_epsilon_that_is_only_less_bad_is_no_cure() -> None:
    check_refuted(judge(tried(DEAD, CURE, 2.0, start=5.0, without=9.0)), "no epsilon learns")


@pytest.mark.parametrize("epsilon", [None, [1e-30, 1e-3], math.nan])
def test_a_rule_without_a_single_epsilon_is_untested(epsilon: Any) -> None:
    """As SGD, and Adafactor, which has two with a meaning of their own."""
    check_untested(judge(run([math.nan, math.nan], epsilon)), "no optimizer with an epsilon")


def test_the_largest_epsilon_of_all_groups_is_named() -> None:
    assert "Epsilon is 0.5," in judge(run([1.0, 1.0], 1e-8, 0.5, None)).because


@pytest.mark.parametrize("evidence", [run([1.0, 1.0], 1.0, count=3), run([math.nan] * 2, 1.0)])
def test_without_enough_readings_it_is_untested(evidence: Evidence) -> None:
    check_untested(judge(evidence), "steps only")
