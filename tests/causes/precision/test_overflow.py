"""Values beyond their format."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from evidence import check_proven, check_refuted, check_untested, seen, steps

from lossleuth.causes.precision.overflow import CAUSE, judge
from lossleuth.findings.precision import FirstNonFinite
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where


def first(largest: float, name: str = "exp") -> FirstNonFinite:
    return FirstNonFinite(name, "model.py", 14, "head", what="inf", largest_input=largest)


def run(losses: list[float], *found: FirstNonFinite, **scalars: Any) -> Evidence:
    return seen(*found, steps=steps(len(losses), loss=losses, **scalars))


BROKEN = [3.0, 2.9, math.nan]


def test_the_first_operation_that_breaks_ordinary_numbers_is_proven() -> None:
    check_proven(judge(run(BROKEN, first(120.0))), Where("model.py", 14, "head"), "exp", "120")


def test_gradients_that_break_alone_are_enough() -> None:
    norms = [1.0, 2.0, math.inf]
    evidence = run([3.0, 2.9, 2.8], first(120.0, "div"), grad_norm=norms)
    check_proven(CAUSE.judged(evidence), Where("model.py", 14, "head"), "div")


def test_a_loss_that_breaks_from_the_start_is_not_a_consequence_of_training() -> None:
    check_proven(judge(run([math.nan] * 3, first(1e9))), Where("model.py", 14, "head"))


def test_inputs_that_had_exploded_before_are_the_consequence_of_something_else() -> None:
    check_refuted(judge(run(BROKEN, first(1e20))), "a consequence, not the cause")


def test_a_mean_over_no_target_is_another_fault() -> None:
    evidence = run(BROKEN, first(1.0, "nll_loss"), supervised=[64, 64, 0])
    check_refuted(judge(evidence), "0 targets", "labels_all_masked")
    # 0 / 0, where a script takes the mean itself.
    by_hand = run(BROKEN, first(0.0, "div"), supervised=[64, 64, 0])
    check_refuted(judge(by_hand), "0 targets")


def test_updates_that_a_scaler_skips_are_handled() -> None:
    recorded = steps(3, loss=3.0, grad_norm=[1.0, math.inf, 1.0])
    recorded[1] = replace(recorded[1], skipped_by=["AdamW"])
    check_refuted(judge(seen(steps=recorded)), "1 updates", "skipped")


def test_infinities_that_the_program_handles_are_nothing_to_speak_of() -> None:
    check_refuted(judge(run([3.0, 2.9, 2.8], first(1.0, "masked_fill"))), "3 losses")


@pytest.mark.parametrize(
    ("evidence", "words"), [(Evidence(), "no loss"), (run(BROKEN), "was not recorded")]
)
def test_without_the_operation_it_is_untested(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


@pytest.mark.parametrize(("supervised", "name"), [([64, 64, 0], "exp"), ([64, 64, 8], "nll_loss")])
def test_targets_are_blamed_only_where_there_are_none(supervised: list[int], name: str) -> None:
    evidence = run(BROKEN, first(1.0, name), supervised=supervised)
    check_proven(judge(evidence), Where("model.py", 14, "head"), name)
