"""How far back a token still matters, as every report tells it."""

from __future__ import annotations

from evidence import seen

from lossleuth.findings.model import Leaks
from lossleuth.judge.context_reach import context_reach
from lossleuth.judge.judge import Circumstances, judge
from lossleuth.types.evidence import Evidence


def leaks(reach: int | None, length: int = 32) -> Leaks:
    return Leaks(0.0, 0.0, 1.0, 0.2, reach=reach, length=length)


def test_the_farthest_of_all_recorded_steps_is_told() -> None:
    (told,) = context_reach(seen(leaks(3), leaks(7), leaks(None)))
    assert "up to 7 positions later, in texts of 32" in told


def test_a_model_without_a_past_is_told_too() -> None:
    (told,) = context_reach(seen(leaks(0)))
    assert "no token moves a later prediction" in told


def test_what_was_not_measured_is_not_told() -> None:
    assert context_reach(Evidence()) == []
    assert context_reach(seen(leaks(None), leaks(0, length=1))) == []


def test_it_is_a_note_of_the_verdict() -> None:
    verdict = judge((), [seen(leaks(7))], Circumstances())
    assert any("up to 7 positions later" in note for note in verdict.notes)
