"""Parameters in an optimizer that ask for no gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evidence import OPTIMIZER, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.gradient.parameters_frozen import CURE, judge
from lossleuth.types import Evidence, Where

TABLE = {"name": "tok.weight", "elements": 300, "file": "model.py", "line": 3, "module": "tok"}


def covered(*frozen: dict[str, Any]) -> Evidence:
    found = {"frozen": list(frozen), "held": 25, "missing": [], "missing_share": 0.0}
    return seen(coverage=found, sizes=[700], parameters=["head.weight"])


def test_frozen_parameters_in_an_optimizer_are_suspected_until_unfrozen() -> None:
    check_trial(judge, covered(TABLE), [CURE], OPTIMIZER)
    judgement = judge(covered(TABLE))
    assert "1 tensors with 300 elements" in judgement.because
    assert "tok.weight" in judgement.because
    assert judgement.wrongness is not None and judgement.wrongness.value == 0.3


def test_the_parameter_is_named_where_no_line_made_the_optimizer() -> None:
    unknown = replace(covered(TABLE), settings={}, steps=[])
    assert judge(unknown).where == Where("model.py", 3, "tok")


def test_adapters_over_frozen_weights_in_no_optimizer_are_sound() -> None:
    check_refuted(judge(covered()), "all 25 tensors")


def test_without_coverage_it_is_untested() -> None:
    check_untested(judge(Evidence()), "no step with a backward pass")
