"""A target that moves."""

from __future__ import annotations

from evidence import OPTIMIZER, check_proven, check_refuted
from lessons_seen import MADE, UNTAUGHT, taught

from lossleuth.causes.distillation.teacher_trained import CAUSE, judge


def test_a_layer_behind_the_teacher_that_is_trained_is_proven() -> None:
    fault = taught(target_share=0.385, target_parameters=("projector.weight",))
    check_proven(judge(fault), MADE, "38.5%", "projector.weight")


def test_a_whole_teacher_was_given_to_the_optimizer() -> None:
    fault = taught(target_share=0.1, target_parameters=("a",), target_whole=True)
    check_proven(judge(fault), OPTIMIZER, "10.0%")


def test_a_fixed_target_and_no_target_are_refuted() -> None:
    check_refuted(judge(taught()), "0 of the gradient", "3 recorded steps")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")


def test_a_teacher_of_other_classes_is_judged_as_well() -> None:
    other = taught(incomparable="shapes differ", knowledge=None, target_share=0.2)
    check_proven(CAUSE.judged(other), MADE, "20.0%")
