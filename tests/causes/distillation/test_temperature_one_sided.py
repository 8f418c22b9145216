"""Only one is softened."""

from __future__ import annotations

from evidence import check_refuted, check_trial, check_untested
from lessons_seen import COMPARED, UNTAUGHT, taught

from lossleuth.causes.distillation.temperature_one_sided import CAUSE, judge
from lossleuth.types.change import Change
from lossleuth.types.judgement import Status


def test_different_temperatures_are_tried_as_one() -> None:
    fault = taught(student_temperature=1.0, teacher_temperature=4.0, weight=0.5)
    change = Change.of("teach_by_reference", temperature=4.0, weight=0.5)
    check_trial(judge, fault, [change], COMPARED)


def test_the_same_are_refuted() -> None:
    check_refuted(judge(taught()), "temperature, 2")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")


def test_a_trained_temperature_is_untested() -> None:
    check_untested(judge(taught(student_temperature=None)), "trained")


def test_a_teacher_of_other_classes_is_judged_as_well() -> None:
    other = taught(incomparable="shapes differ", knowledge=None, student_temperature=1.0)
    assert CAUSE.judged(other).status is Status.SUSPECTED
