"""Teacher and student at different places."""

from __future__ import annotations

from evidence import alternating, check_proven, check_refuted, check_untested, seen, steps
from lessons_seen import COMPARED, UNTAUGHT, knowledge, lesson, taught

from lossleuth.causes.distillation.teacher_offset import judge

MOVED = knowledge(6.0, offsets={"-2": 6.0, "-1": 2.1, "0": 6.0, "1": 6.0, "2": 6.0})


def test_rows_of_another_place_are_proven() -> None:
    check_proven(judge(taught(knowledge=MOVED)), COMPARED, "-1 places", "2.100", "6.000", "4.000")


def test_another_input_is_mentioned() -> None:
    assert "other tokens" in judge(taught(knowledge=MOVED, same_input=0.1)).because


def test_it_has_to_be_so_on_every_step() -> None:
    windows = [{"teaching": lesson(knowledge=k)} for k in (MOVED, knowledge())]
    check_refuted(judge(alternating(*windows, steps=steps(4, unigram=4.0))), "2.000")


def test_rows_of_their_own_place_are_refuted() -> None:
    check_refuted(judge(taught()), "2.000 at its own place")
    check_refuted(judge(UNTAUGHT), "0 of 3")
    check_untested(judge(taught(knowledge=None)), "not known")
    check_untested(judge(seen(teaching=lesson(knowledge=MOVED))), "frequent")
