"""Where the time of a step goes."""

from __future__ import annotations

import pytest

from lossleuth.observe.steps import phases
from lossleuth.observe.steps.phases import Phases


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in a list of one."""
    now = [0.0]
    monkeypatch.setattr(phases, "perf_counter", lambda: now[0])
    return now


def test_time_goes_to_the_phase_that_ends(clock: list[float]) -> None:
    seconds: dict[str, float] = {}
    of_step = Phases(clock[0])
    for phase, until in (("batch", 1), ("forward", 3), ("batch", 4), ("forward", 8)):
        clock[0] = until
        of_step.mark(seconds, phase)
    assert seconds == {"batch": 2, "forward": 6}


def test_a_backward_is_added_with_the_phase_after_it(clock: list[float]) -> None:
    seconds: dict[str, float] = {}
    of_step = Phases(clock[0])
    of_step.backward_ended, clock[0] = 5.0, 7.0
    of_step.mark(seconds, "clip")
    clock[0] = 8.0
    of_step.mark(seconds, "update")
    assert seconds == {"backward": 5, "clip": 2, "update": 1}


def test_a_backward_at_the_end_of_a_step_belongs_to_it(clock: list[float]) -> None:
    old: dict[str, float] = {}
    new: dict[str, float] = {}
    of_step = Phases(clock[0])
    of_step.backward_ended, clock[0] = 5.0, 7.0
    of_step.close(old, clock[0])
    clock[0] = 9.0
    of_step.mark(new, "forward")
    assert (old, new) == ({"backward": 5}, {"forward": 2})
