"""What is no divergence."""

from __future__ import annotations

from evidence import check_refuted, check_trial, check_untested
from lessons_seen import COMPARED, UNTAUGHT, taught

from lossleuth.causes.distillation.divergence_misused import CAUSE, judge
from lossleuth.types.change import Change


def test_what_is_not_at_rest_is_tried_by_reference() -> None:
    reference = Change.of("teach_by_reference", temperature=2.0, weight=0.5)
    check_trial(judge, taught(pull_at_goal=0.4), [reference], COMPARED)
    alone = taught(pull_at_goal=0.4, has_labels=False, label_weight=None)
    change = Change.of("teach_by_reference", temperature=2.0, weight=1.0)
    check_trial(judge, alone, [change], COMPARED)


def test_a_mean_over_classes_is_tried_without() -> None:
    change = Change.of("scale_lesson", factor=64)
    check_trial(judge, taught(weight=0.5 / 64), [change], COMPARED)


def test_targets_mixed_with_labels_rest_elsewhere() -> None:
    check_refuted(judge(taught(pull_at_goal=0.4, pull_to_labels=0.999)), "labels")


def test_a_temperature_on_one_side_is_another_fault() -> None:
    check_refuted(judge(taught(pull_at_goal=0.4, student_temperature=1.0)), "4.0e-01")


def test_a_divergence_is_refuted() -> None:
    check_refuted(judge(taught()), "1.0e-15")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")
    check_untested(judge(taught(pull_at_goal=None)), "could not be measured")
