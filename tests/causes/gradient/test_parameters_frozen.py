"""Parameters in an optimizer that ask for no gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import OPTIMIZER, check_refuted, check_trial, check_untested, seen, steps

from lossleuth.causes.gradient.parameters_frozen import ALL, CURE, LEAST, judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where

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


def test_the_only_line_that_freezes_is_named_first() -> None:
    known = replace(covered(TABLE), origins={"freezing": "model.py:40"})
    assert judge(known).where == Where("model.py", 40)


def test_the_parameter_is_named_where_no_line_made_the_optimizer() -> None:
    unknown = replace(covered(TABLE), settings={}, steps=[])
    assert judge(unknown).where == Where("model.py", 3, "tok")


def test_adapters_over_frozen_weights_in_no_optimizer_are_sound() -> None:
    check_refuted(judge(covered()), "all 25 tensors")


def test_without_coverage_it_is_untested() -> None:
    check_untested(judge(Evidence()), "no step with a backward pass")


def left_out(share: float = 0.8, loss: float = 3.0, thin: float = 0.1, **given: object) -> Evidence:
    coverage = {"frozen": [], "held": 3, "frozen_share": share, "thin_share": thin}
    windows = {"coverage": coverage, "true_loss": {"loss": loss, "vocabulary": 30}}
    return seen(steps=steps(20, unigram=2.9), **windows, **given)


def test_a_model_that_is_mostly_frozen_and_learns_nothing_is_tried_unfrozen() -> None:
    fault = left_out()
    check_trial(judge, fault, [ALL], OPTIMIZER, least=LEAST)
    assert "80%" in judge(fault).because


@pytest.mark.parametrize(
    "evidence",
    [
        left_out(share=0.3),
        left_out(loss=2.0),
        left_out(thin=0.9),
        left_out(loss=2.8, origins={"weights": {"files": [{"file": "model.pt"}]}}),
    ],
    ids=["a part", "learns", "adapters", "from a file"],
)
def test_freezing_that_may_be_meant_is_not_blamed(evidence: Evidence) -> None:
    check_refuted(judge(evidence))


def test_where_targets_are_not_seen_what_is_read_is_the_measure() -> None:
    coverage = {"frozen": [], "held": 3, "frozen_share": 0.9}
    for floor, status in ((2.9, Status.SUSPECTED), (3.5, Status.REFUTED)):
        fault = seen(steps=steps(20, loss=3.2), coverage=coverage, floors={"unigram": floor})
        assert judge(fault).status is status


def test_weights_of_a_file_that_know_nothing_are_as_good_as_drawn() -> None:
    from_file = left_out(loss=3.4, origins={"weights": {"files": [{"file": "model.pt"}]}})
    assert judge(from_file).status is Status.SUSPECTED
