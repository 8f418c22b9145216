"""Work of ours that runs over is stopped, and nothing else is."""

from __future__ import annotations

import math
import threading
import time
from functools import partial

import pytest

from lossleuth.tape import deadline
from lossleuth.tape.deadline import OutOfTime, Watchdog, check


def spin(seconds: float) -> int:
    """Work that never looks at our clock."""
    until, turns = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        turns += 1
    return turns


def test_work_that_looks_at_the_clock_stops_itself() -> None:
    turns = []

    def work() -> None:
        while True:
            check()
            turns.append(1)

    with pytest.raises(OutOfTime), Watchdog() as watchdog:
        watchdog.call(work, 0.05)
    assert turns
    # The deadline is over with the work.
    check()


def test_work_that_does_not_is_interrupted() -> None:
    with Watchdog() as watchdog:
        with pytest.raises(OutOfTime):
            watchdog.call(lambda: spin(60), 0.05)
        # What follows is not: no exception is still to come.
        assert spin(1.5) > 0


def test_no_handler_of_exceptions_keeps_it_alive() -> None:
    def stubborn() -> None:
        while True:
            try:
                spin(0.01)
            except Exception:
                continue

    with Watchdog() as watchdog, pytest.raises(OutOfTime):
        watchdog.call(stubborn, 0.05)


def test_one_that_is_lost_is_raised_again() -> None:
    swallowed = []

    def work() -> None:
        try:
            spin(60)
        except OutOfTime:
            swallowed.append(1)
        spin(60)

    with Watchdog() as watchdog, pytest.raises(OutOfTime):
        watchdog.call(work, 0.05)
    assert swallowed == [1]


def test_work_that_is_done_in_time_is_not_disturbed() -> None:
    with Watchdog() as watchdog:
        for _ in range(200):
            assert watchdog.call(lambda: spin(0.001), 30) > 0


def test_it_may_end_at_the_very_moment_of_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing escapes from the call, and nothing comes after it."""
    monkeypatch.setattr(deadline, "LATER_SECONDS", 0.0)
    monkeypatch.setattr(deadline, "AGAIN_SECONDS", 0.002)
    monkeypatch.setattr(deadline, "LOOK_SECONDS", 0.0001)
    stopped = 0
    with Watchdog() as watchdog:
        for number in range(300):
            work = partial(spin, 0.0017 + 0.000002 * number)
            try:
                watchdog.call(work, 0.002)
            except OutOfTime:
                stopped += 1
            spin(0.0005)
    assert 0 < stopped <= 300


def test_without_a_limit_no_thread_is_started_and_none_is_left() -> None:
    before = threading.active_count()
    with Watchdog() as watchdog:
        assert watchdog.call(threading.active_count, math.inf) == before
        assert watchdog.call(threading.active_count, 60) == before + 1
    assert threading.active_count() == before
