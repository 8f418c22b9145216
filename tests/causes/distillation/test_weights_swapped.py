"""The weight on the wrong term."""

from __future__ import annotations

from evidence import check_refuted, check_trial, check_untested
from lessons_seen import MIXED, UNTAUGHT, taught

from lossleuth.causes.distillation.weights_swapped import CAUSE, judge
from lossleuth.causes.reasoning import MIN_EFFECT_NATS
from lossleuth.types.change import Change


def test_a_teacher_without_a_say_is_tried_with_one() -> None:
    change = Change.of("teach_by_reference", temperature=2.0, weight=0.9)
    check_trial(
        judge, taught(weight=0.4, label_weight=0.9), [change], MIXED, min_effect=MIN_EFFECT_NATS
    )


def test_a_weight_of_nothing_is_one_of_them() -> None:
    change = Change.of("teach_by_reference", temperature=2.0, weight=1.0)
    silent = taught(weight=0.0, weight_fit=None, label_weight=1.0)
    check_trial(judge, silent, [change], MIXED, min_effect=MIN_EFFECT_NATS)


def test_a_missing_factor_is_another_fault() -> None:
    check_refuted(judge(taught(weight=0.5, teacher_temperature=4.0)), "missing factor")
    check_refuted(judge(taught(weight=0.5 / 64)), "missing factor")


def test_even_weights_are_refuted() -> None:
    check_refuted(judge(taught()), "divergence is 0.5")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")


def test_unknown_weights_are_untested() -> None:
    check_untested(judge(taught(weight=None)), "could not be measured")
    check_untested(judge(taught(1, weight=0.1)), "only one")
    assert "no labels" in judge(taught(label_weight=None, has_labels=False)).because
