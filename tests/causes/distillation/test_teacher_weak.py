"""A teacher that is worse than its student."""

from __future__ import annotations

import math

from evidence import alternating, check_refuted, check_trial, check_untested, steps
from lessons_seen import MADE, UNTAUGHT, quality, taught, teaching

from lossleuth.causes.distillation.teacher_weak import CAUSE, CURE, judge

WORSE = {"behind": 0.5, "behind_error": 0.02}


def test_it_is_tried_to_go_without() -> None:
    check_trial(judge, taught(knowledge=quality(3.0, **WORSE)), [CURE], MADE)


def test_a_better_one_is_refuted() -> None:
    check_refuted(judge(taught()), "2.000", "+0.500")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")


def test_one_that_learns_along_is_an_average_of_the_student() -> None:
    findings = [[teaching(knowledge=quality(x, **WORSE))] for x in (3.5, 3.0, 2.5)]
    found = judge(alternating(*findings, steps=steps(4, unigram=4.0)))
    check_refuted(found, "3.500", "2.500")


def test_one_that_knows_nothing_is_another_fault() -> None:
    found = judge(taught(knowledge=quality(5.0, **WORSE)))
    assert "another fault" in found.because


def test_without_labels_there_is_nothing_to_be_better_by() -> None:
    found = judge(taught(knowledge=quality(3.0, **WORSE), has_labels=False))
    assert "no other source" in found.because
    check_untested(judge(taught(knowledge=None)), "not known")


def test_a_student_whose_loss_is_no_number_is_no_measure() -> None:
    check_untested(judge(taught(knowledge=quality(3.0, behind=math.nan))), "not known")
