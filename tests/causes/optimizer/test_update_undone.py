"""Updates that do not last."""

from __future__ import annotations

import pytest
from evidence import UPDATE, alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.optimizer.update_undone import CAUSE, WANTS, judge
from lossleuth.findings.update import Undone
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where

LINE = ("train.py:31",)


def test_an_update_that_is_taken_back_is_suspected_until_a_trial_decides() -> None:
    fault = seen(Undone(0.99, LINE))
    check_trial(CAUSE.judged, fault, WANTS, Where("train.py", 31))
    assert "99.0% of an update is taken back" in judge(fault).because
    assert judge(seen(Undone(0.99))).where == UPDATE


@pytest.mark.parametrize(
    "evidence",
    [
        seen(Undone(0.0)),
        seen(Undone(-0.2)),
        alternating([Undone(0.0)], [Undone(0.5)], [Undone(0.0)]),
    ],
    ids=["it lasts", "it is made longer", "a look-ahead optimizer"],
)
def test_updates_that_last_are_sound(evidence: Evidence) -> None:
    check_refuted(judge(evidence), "expected 0 %")


def test_after_a_single_update_it_is_untested() -> None:
    check_untested(judge(alternating([Undone(0.99)])), "after 1 updates only")
    assert CAUSE.judged(Evidence()).status is Status.UNTESTED
