"""A teacher that knows nothing."""

from __future__ import annotations

from evidence import check_proven, check_refuted, check_trial, check_untested, seen
from lessons_seen import MADE, UNTAUGHT, quality, taught, teaching

from lossleuth.causes.distillation.teacher_random import CAUSE, CURE, judge


def test_beside_labels_it_is_tried_to_go_without() -> None:
    check_trial(judge, taught(knowledge=quality(4.2)), [CURE], MADE)


def test_alone_its_loss_proves_it() -> None:
    fault = taught(knowledge=quality(4.2), has_labels=False)
    check_proven(judge(fault), MADE, "4.200", "4.000")


def test_a_teacher_that_knows_is_refuted() -> None:
    check_refuted(judge(taught()), "2.000", "4.000")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")


def test_knowledge_elsewhere_is_another_fault() -> None:
    moved = quality(6.0, offsets={"0": 6.0, "1": 2.0})
    assert judge(taught(knowledge=moved)).status.value == "refuted"
    shown = taught(knowledge=quality(6.0), with_same_input=quality(2.0))
    assert "gets the student's tokens" in judge(shown).because


def test_what_is_not_known_is_untested() -> None:
    check_untested(judge(taught(knowledge=None)), "not known")
    check_untested(judge(seen(teaching())), "frequent")


def test_a_teacher_that_is_a_little_better_than_guessing_is_not_blamed_for_few_tokens() -> None:
    unsure = taught(knowledge=quality(3.9, error=0.2), has_labels=False)
    check_untested(judge(unsure), "3.900", "4.000", "may be chance")
    # All recorded steps together tell, where each by itself does not.
    check_refuted(judge(taught(knowledge=quality(3.7, error=0.15), has_labels=False)), "3.700")
