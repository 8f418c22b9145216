"""Teacher and student at different places."""

from __future__ import annotations

from evidence import alternating, check_proven, check_refuted, check_untested, seen, steps
from lessons_seen import COMPARED, UNTAUGHT, quality, taught, teaching

from lossleuth.causes.distillation.teacher_offset import CAUSE, judge

MOVED = quality(6.0, offsets={"-2": 6.0, "-1": 2.1, "0": 6.0, "1": 6.0, "2": 6.0})


def test_rows_of_another_place_are_proven() -> None:
    check_proven(
        judge(taught(knowledge=MOVED)), COMPARED, "-1 positions", "2.100", "6.000", "4.000"
    )


def test_another_input_is_mentioned() -> None:
    assert "other tokens" in judge(taught(knowledge=MOVED, same_input=0.1)).because


def test_it_has_to_be_so_on_every_step() -> None:
    findings = [[teaching(knowledge=k)] for k in (MOVED, quality())]
    check_refuted(judge(alternating(*findings, steps=steps(4, unigram=4.0))), "2.000")


def test_rows_of_their_own_place_are_refuted() -> None:
    check_refuted(judge(taught()), "2.000 at its own position")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")
    check_untested(judge(taught(knowledge=None)), "not known")
    check_untested(judge(seen(teaching(knowledge=MOVED))), "frequent")
