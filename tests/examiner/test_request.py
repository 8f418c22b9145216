"""What is asked for, and the time for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossleuth.examiner import request
from lossleuth.examiner.request import Budget, Request


def test_everything_goes_into_the_directory_that_was_given() -> None:
    assert Request("train.py", Path("out")).run.observed == Path("out/observed")


def test_a_budget_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(request.time, "monotonic", lambda: now[0])
    budget = Budget(60.0)
    assert (budget.until, budget.left, budget.spent) == (160.0, 60.0, 0.0)
    # What is left then is for judging.
    assert budget.runs_until == 157.0
    # A share of the whole; later half of what is left; in the end enough to see anything at all.
    assert budget.for_observing(0.4) == 24.0
    now[0] += 40.0
    assert (budget.for_observing(0.4), budget.has(0.3), budget.has(0.4)) == (10.0, True, False)
    now[0] += 40.0
    assert (budget.for_observing(0.4), budget.left, budget.spent) == (5.0, -20.0, 80.0)
    assert not budget.has(0.0)


def test_a_part_of_a_budget_is_a_share_and_the_whole_is_itself() -> None:
    budget = Budget(60.0)
    assert budget.part(1) is budget
    part = budget.part(1 / 3)
    assert 19.0 < part.left <= 20.0
    assert part.has(0.5) and budget.has(0.5)
    assert Budget(0.0).part(0.5).left <= 0.0
