"""The loss of a run, by its record."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from made_runs import record_of_losses

from lossleuth.examiner.measured import Measured, measured
from lossleuth.record.read import Record


def test_a_record_says_what_it_measured(tmp_path: Path) -> None:
    losses = [5.0, 4.0, 3.0, 2.0, 1.0]
    path = record_of_losses(tmp_path / "run", losses, [loss + 0.5 for loss in losses])
    with Record.open(path) as record:
        found = measured(record, 5)
    assert found == Measured((4.5, 3.5, 2.5, 1.5), 5.5, "true loss", (1, 2, 3, 4))
    assert found.end == pytest.approx(3.0)
    assert found.differentiated is not None
    assert found.differentiated.losses == (4.0, 3.0, 2.0, 1.0)
    assert Measured((), 1.0, "true loss").end == math.inf


def test_a_run_that_breaks_ends_nowhere_and_one_that_is_too_short_says_so(tmp_path: Path) -> None:
    path = record_of_losses(tmp_path / "broken", [5.0, 4.0, math.nan, 2.0, 1.0])
    with Record.open(path) as record:
        broken = measured(record, 5)
    assert isinstance(broken, Measured) and broken.end == math.inf
    with Record.open(record_of_losses(tmp_path / "short", [5.0, 4.0])) as record:
        assert measured(record, 5) == "it made 2 steps, where 5 were expected"


def test_two_runs_are_compared_at_the_steps_of_both() -> None:
    found = Measured((3.0, 2.0, 1.0), 9.0, "true loss", (5, 6, 7)).at((6, 7, 8))
    assert (found.losses, found.steps) == ((2.0, 1.0), (6, 7))
