"""Rounding as a part of the gradient."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from evidence import alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.precision.rounding_error import CAUSE, CURE, judge
from lossleuth.findings.gradient import GradientTruth
from lossleuth.findings.precision import OperationError
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where


def rounded(floor: float, untested: str | None = None) -> GradientTruth:
    numbers = {"cosine": 1.0, "scale": 1.0}
    return GradientTruth(floor, floor, **numbers, parameters=(), untested=untested)


def operation(error: float, line: int) -> OperationError:
    return OperationError("mm", "model.py", line, "head", "bfloat16", error)


def test_a_gradient_that_is_mostly_rounding_is_suspected_at_the_worst_operation() -> None:
    fault = seen(rounded(0.5), operation(0.1, 4), operation(0.4, 7))
    check_trial(CAUSE.judged, fault, [CURE], Where("model.py", 7, "head"))
    assert "50%" in judge(fault).because


def test_rounding_without_a_known_operation_has_no_place() -> None:
    check_trial(judge, seen(rounded(0.5)), [CURE], None)


@pytest.mark.parametrize("floor", [1e-7, 4e-3, 0.2], ids=["float32", "bfloat16", "limit"])
def test_ordinary_rounding_is_ruled_out_with_its_number(floor: float) -> None:
    check_refuted(judge(seen(rounded(floor))), f"{floor:.1e}")


def test_the_worst_recorded_step_counts() -> None:
    fault = alternating([rounded(1e-7)], [rounded(0.5)])
    check_trial(judge, fault, [CURE], None)


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "no step was recorded"),
        (seen(rounded(math.nan, untested="sparse")), "sparse"),
        (seen(rounded(math.nan)), "no finite gradient"),
    ],
    ids=["nothing", "no replay", "no number"],
)
def test_without_a_replay_it_is_untested_with_the_reason(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def test_a_gradient_that_is_0_throughout_was_not_rounded() -> None:
    nothing = replace(rounded(1.0), scale=0.0)
    check_untested(judge(seen(nothing)), "none above 0")
    check_refuted(judge(alternating([nothing], [rounded(1e-7)])), "1.0e-07")
