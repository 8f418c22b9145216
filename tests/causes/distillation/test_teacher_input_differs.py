"""A teacher that is shown something else."""

from __future__ import annotations

from evidence import check_proven, check_refuted, check_untested
from lessons_seen import MADE, UNTAUGHT, quality, taught

from lossleuth.causes.distillation.teacher_input_differs import CAUSE, judge


def test_one_that_would_have_known_is_proven() -> None:
    fault = taught(same_input=0.05, knowledge=quality(6.0), with_same_input=quality(2.0))
    check_proven(judge(fault), MADE, "95%", "6.000", "2.000")


def test_one_that_would_not_is_refuted() -> None:
    same = taught(same_input=0.9, knowledge=quality(2.0), with_same_input=quality(1.95))
    check_refuted(judge(same), "10%", "1.950")


def test_the_same_input_is_refuted() -> None:
    check_refuted(judge(taught()), "3 recorded steps")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")


def test_what_was_not_seen_is_untested() -> None:
    check_untested(judge(taught(same_input=None)), "another length")
    check_untested(judge(taught(same_input=0.5)), "is not known")
