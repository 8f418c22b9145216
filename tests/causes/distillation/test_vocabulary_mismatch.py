"""Classes under other names."""

from __future__ import annotations

from evidence import check_proven, check_refuted, check_untested, seen
from lessons_seen import COMPARED, UNTAUGHT, quality, taught, teaching

from lossleuth.causes.distillation.vocabulary_mismatch import CAUSE, judge


def test_knowledge_under_other_names_is_proven() -> None:
    fault = taught(knowledge=quality(9.0, renamed=2.5))
    check_proven(judge(fault), COMPARED, "9.000", "2.500", "4.000")


def test_knowledge_under_the_right_names_is_refuted() -> None:
    check_refuted(judge(taught(knowledge=quality(2.0, renamed=1.0))), "2.000")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")


def test_no_knowledge_under_any_is_refuted() -> None:
    check_refuted(judge(taught(knowledge=quality(5.0, renamed=4.1))), "4.100")


def test_too_few_rows_are_untested() -> None:
    check_untested(judge(taught(knowledge=quality(5.0, renamed=None))), "too few rows")
    check_untested(judge(taught(knowledge=None)), "not known")
    check_untested(judge(seen(teaching(knowledge=quality(9.0)))), "frequent")
