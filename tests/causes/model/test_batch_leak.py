"""Rows that influence each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evidence import alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.model.batch_leak import CAUSE, judge
from lossleuth.findings.model import Leaks, Softmaxes
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where


def leak(batch: float | None, *places: str) -> Leaks:
    return Leaks(None, batch, None, None, batch_places=places, floor=1e-12, batch_harm=0.3)


def test_rows_that_move_others_are_proven_where_they_meet() -> None:
    fault = seen(leak(0.4, "model.py:21"))
    check_proven(judge(fault), Where("model.py", 21), "0.4", "all of 3", "exactly 0")


def test_rows_that_meet_at_no_known_line_have_no_place() -> None:
    check_proven(judge(seen(leak(0.4))), None)


@pytest.mark.parametrize("batch", [0.0, 1e-13], ids=["exactly", "to rounding"])
def test_rows_that_stay_as_they_were_are_sound(batch: float) -> None:
    check_refuted(judge(seen(leak(batch))), "expected 0")


def test_rows_that_compete_for_an_expert_now_and_then_are_not_blamed() -> None:
    competing = replace(leak(0.4), batch_harm=0.001)
    check_refuted(judge(alternating([competing], [leak(0.0)])), "no harm")


def test_rows_of_unknown_texts_are_suspected_at_most() -> None:
    found = judge(alternating([leak(0.4)], [replace(leak(0.4), texts_known=False)]))
    assert found.status is Status.SUSPECTED and "not known for sure" in found.because


def test_a_single_row_is_untested_with_the_reason() -> None:
    check_untested(CAUSE.judged(Evidence()), "no step was recorded")
    check_untested(CAUSE.judged(seen(leak(None))), "several rows")
    unknown = replace(leak(None), untested="no logits")
    check_untested(CAUSE.judged(seen(unknown)), "no logits")


def test_logits_whose_rows_are_mixed_up_are_for_another() -> None:
    torn = Softmaxes(None, None, "train.py:18", (), picked_elsewhere=True)
    check_untested(CAUSE.judged(seen(leak(0.4), torn)), "softmax_axis")


def test_the_smallest_move_of_all_steps_is_given() -> None:
    check_proven(judge(alternating([leak(0.7)], [leak(0.2)])), None, "by 0.2 of")
