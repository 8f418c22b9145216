"""A teacher with dropout."""

from __future__ import annotations

from evidence import check_refuted, check_trial, check_untested
from lessons_seen import MADE, UNTAUGHT, taught

from lossleuth.causes.distillation.teacher_in_train_mode import CAUSE, CURE, judge


def test_dropout_is_tried_without() -> None:
    check_trial(judge, taught(dropout=0.3), [CURE], MADE)


def test_none_is_refuted() -> None:
    check_refuted(judge(taught(dropout=1e-14)), "1.0e-14")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")
    check_untested(judge(taught(dropout=None)), "could not be compared")
