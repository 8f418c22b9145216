"""Causes."""

from __future__ import annotations

from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Stage, Status, refuted


def test_a_cause_judges_evidence() -> None:
    cause = Cause("never_so", Stage.DATA, "it never is", lambda _: refuted("0 of 3 steps"))
    assert cause.judge(Evidence()).status is Status.REFUTED
