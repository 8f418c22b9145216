"""Tensors in use that no optimizer has."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from evidence import OPTIMIZER, alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.model.unregistered_parameters import CAUSE, CURE, judge
from lossleuth.findings.update import Coverage, Uncovered
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where

LAYER = Uncovered("layers.3", 64, "model.py", 9, "layers", gradient=1.0)
COVERAGE = Coverage((), 0.0, frozen=(), unused=0, held=20, unused_match_missing=False)


def covered(share: float, *missing: Uncovered, **given: Any) -> Evidence:
    return seen(replace(COVERAGE, missing=missing, missing_share=share, **given))


def test_tensors_in_no_optimizer_are_suspected_at_their_use_until_trained() -> None:
    fault = covered(0.4, LAYER, LAYER)
    check_trial(judge, fault, [CURE], Where("model.py", 9, "layers"))
    assert "2 tensors with 128 elements" in judge(fault).because
    assert "40%" in judge(fault).because and "layers.3" in judge(fault).because


def test_the_line_that_hides_them_is_named_or_the_optimizer_that_left_them_out() -> None:
    hidden = covered(0.4, LAYER, missing_hidden_at="model.py:4")
    assert judge(hidden).where == Where("model.py", 4)
    assert judge(covered(0.4, LAYER, missing_registered=True)).where == OPTIMIZER


@pytest.mark.parametrize("evidence", [covered(0.0), covered(1e-9, LAYER)])
def test_everything_in_an_optimizer_is_sound(evidence: Evidence) -> None:
    check_refuted(judge(evidence), "0%")


@pytest.mark.parametrize("given", [{"unused_match_missing": True}, {"unused": 5}])
def test_an_optimizer_with_other_copies_is_another_fault(given: Any) -> None:
    check_refuted(judge(covered(0.4, LAYER, **given)), "stale_parameters")


def test_what_a_cure_unfroze_is_not_the_programs_fault() -> None:
    cured = replace(covered(0.4, LAYER), cures=[Change.of("train_everything")])
    check_untested(CAUSE.judged(cured), "a cure lets")


def test_without_coverage_it_is_untested() -> None:
    check_untested(CAUSE.judged(Evidence()), "no step was recorded")
    check_untested(CAUSE.judged(seen()), "coverage could not be measured")
    check_untested(CAUSE.judged(covered(math.nan, LAYER)), "finite gradient")


def test_of_updates_by_hand_that_take_turns_nothing_is_left_out() -> None:
    other = replace(LAYER, name="layers.4")

    def by_hand(*missing: Uncovered) -> Coverage:
        return replace(COVERAGE, missing=missing, missing_share=0.4, by_hand=True)

    turns = alternating([by_hand(LAYER)], [by_hand(other)])
    check_refuted(judge(turns), "every tensor")
    always = alternating([by_hand(LAYER)], [by_hand(LAYER, other)])
    assert judge(always).status is Status.SUSPECTED
