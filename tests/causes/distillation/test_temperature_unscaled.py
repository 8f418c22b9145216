"""The square of the temperature is missing."""

from __future__ import annotations

from evidence import check_refuted, check_trial, check_untested
from lessons_seen import COMPARED, UNTAUGHT, taught

from lossleuth.causes.distillation.temperature_unscaled import CAUSE, judge
from lossleuth.types.change import Change


def test_weights_that_add_up_to_one_are_tried_with_the_square() -> None:
    fault = taught(weight=0.5, teacher_temperature=4.0, student_temperature=4.0)
    check_trial(judge, fault, [Change.of("scale_lesson", factor=16.0)], COMPARED)


def test_weights_with_the_square_in_them_are_refuted() -> None:
    check_refuted(judge(taught()), "T² = 4")


def test_a_temperature_near_one_needs_none() -> None:
    near = taught(weight=0.5, teacher_temperature=1.0, student_temperature=1.0)
    check_refuted(judge(near), "temperature is 1")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")


def test_unknown_weights_are_untested() -> None:
    check_untested(judge(taught(label_weight=None)), "could not be measured")
