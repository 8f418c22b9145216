"""Rounding as a part of the gradient."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.precision.rounding_error import CURE, GAIN, judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where


def rounded(floor: float, **given: Any) -> dict[str, Any]:
    return {"gradient_truth": [{"floor": floor, "error": floor, "untested": None}], **given}


def operation(error: float, line: int) -> dict[str, Any]:
    return {"error": error, "file": "model.py", "line": line, "module": "head", "name": "mm"}


def test_a_gradient_that_is_mostly_rounding_is_suspected_at_the_worst_operation() -> None:
    fault = seen(**rounded(0.5, precision=[operation(0.1, 4), operation(0.4, 7)]))
    check_trial(judge, fault, [CURE], Where("model.py", 7, "head"), least=GAIN)
    assert "50%" in judge(fault).because


def test_rounding_without_a_known_operation_has_no_place() -> None:
    check_trial(judge, seen(**rounded(0.5)), [CURE], None, least=GAIN)


@pytest.mark.parametrize("floor", [1e-7, 4e-3, 0.2], ids=["float32", "bfloat16", "limit"])
def test_ordinary_rounding_is_ruled_out_with_its_number(floor: float) -> None:
    check_refuted(judge(seen(**rounded(floor))), f"{floor:.1e}")


def test_the_worst_recorded_step_counts() -> None:
    fault = alternating(rounded(1e-7), rounded(0.5))
    check_trial(judge, fault, [CURE], None, least=GAIN)


def test_without_a_replay_it_is_untested_with_the_reason() -> None:
    check_untested(judge(Evidence()), "no finite gradient")
    check_untested(judge(seen(gradient_truth=[{"untested": "sparse"}])), "sparse")
