"""Updates up the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from evidence import (
    BACKWARD,
    OPTIMIZER,
    UPDATE,
    alternating,
    check_proven,
    check_refuted,
    check_trial,
    check_untested,
    seen,
    steps,
)

from lossleuth.causes.optimizer.ascent import CAUSE, CURE, judge
from lossleuth.findings.finding import Finding
from lossleuth.findings.gradient import LogitGradient
from lossleuth.findings.update import Descent, UpdateLines
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where
from lossleuth.types.observed import Provenance


def signs(update: float | None, loss: float | None = None) -> list[Finding]:
    down = [] if update is None else [Descent(update)]
    return [*down, LogitGradient(loss, scale=1.0, count=8)]


@pytest.mark.parametrize(
    ("found", "where", "words"),
    [
        (signs(-0.6), UPDATE, "the update"),
        (signs(-0.6, 1.0), UPDATE, "the update"),
        (signs(0.6, -1.0), BACKWARD, "what is differentiated"),
        (signs(None, -1.0), BACKWARD, "what is differentiated"),
    ],
)
def test_one_wrong_sign_is_suspected_until_turned_around(
    found: Sequence[Finding], where: Where, words: str
) -> None:
    check_trial(judge, seen(*found), [CURE], where)
    assert words in judge(seen(*found)).because


def test_the_one_library_that_is_no_package_is_blamed_for_its_update() -> None:
    fault = replace(seen(*signs(-0.6, 1.0)), provenance=Provenance(["adam.so"]))
    assert judge(fault).where == Where("adam.so")


def test_the_users_own_line_that_writes_to_parameters_is_named() -> None:
    fault = seen(*signs(-0.6, 1.0), UpdateLines(("train.py:30",)))
    assert CAUSE.judged(fault).where == Where("train.py", 30)


@pytest.mark.parametrize(
    "found",
    [signs(0.6, 1.0), signs(-0.01, 1.0), signs(-0.6, -1.0)],
    ids=["down", "momentum", "what is maximised is negated twice"],
)
def test_updates_that_go_down_in_the_end_are_sound(found: Sequence[Finding]) -> None:
    check_refuted(judge(seen(*found)), "above 0 is down")


def test_momentum_that_overshoots_now_and_then_is_not_blamed() -> None:
    check_refuted(judge(alternating(signs(-0.6, 1.0), signs(0.3, 1.0))), "0.300")


@pytest.mark.parametrize("evidence", [Evidence(), seen(), seen(*signs(None))])
def test_without_an_update_it_is_untested(evidence: Evidence) -> None:
    check_untested(CAUSE.judged(evidence), "no step with a gradient")


def test_the_nearest_to_down_of_all_steps_is_named() -> None:
    assert "-0.300 or less" in judge(alternating(signs(-0.6), signs(-0.3))).because
    assert "-0.200 or less" in judge(alternating(signs(0.5, -1.0), signs(0.5, -0.2))).because
    check_refuted(judge(alternating(signs(0.5, -1.0), signs(0.5, 0.4))), "0.400")


def running(rates: list[float], losses: list[float]) -> Evidence:
    return seen(*signs(0.6, 1.0), steps=steps(len(rates), lr=rates, loss=losses))


def test_a_rate_below_zero_is_proven_where_the_loss_rises() -> None:
    rates = [0.1 * (1 - i / 20) for i in range(31)]
    falls = [4.0 - 0.1 * i for i in range(21)]
    rising = running(rates, falls + [2.0 + 0.5 * i for i in range(10)])
    check_proven(judge(rising), OPTIMIZER, "10 of 31 steps", "at step 22", "-0.05")
    still = running(rates, falls + [2.0] * 10)
    check_refuted(judge(still), "above 0 is down")
    noisy = running(rates, falls + [2.0 + 3.0 * (i % 2) - 1.0 for i in range(10)])
    check_refuted(judge(noisy), "above 0 is down")
    # A loss that is negated as well goes down.
    check_refuted(judge(running([-0.1] * 20, [-3.0 + 0.1 * i for i in range(20)])), "above 0")


@pytest.mark.parametrize("last", [-1e-9, -1e-3])
def test_the_end_of_a_schedule_may_round_below_zero(last: float) -> None:
    rates = [0.1] * 20 + [last] * (2 if last < -1e-6 else 10)
    check_refuted(judge(running(rates, [3.0] * len(rates))), "above 0 is down")
