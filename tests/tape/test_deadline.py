"""Work of ours that runs over is stopped, and nothing else is."""

from __future__ import annotations

import math
import threading
import time

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
    turns = 0
    with pytest.raises(OutOfTime), Watchdog() as watchdog, watchdog.within(0.05):
        while True:
            check()
            turns += 1
    assert turns > 0
    # The deadline is over with the block.
    check()


def test_work_that_does_not_is_interrupted() -> None:
    with Watchdog() as watchdog:
        with pytest.raises(OutOfTime), watchdog.within(0.05):
            spin(60)
        # What follows is not: no exception is still to come.
        assert spin(1.5) > 0


def test_no_handler_of_exceptions_keeps_it_alive() -> None:
    def stubborn() -> None:
        while True:
            try:
                spin(0.01)
            except Exception:
                continue

    with Watchdog() as watchdog, pytest.raises(OutOfTime), watchdog.within(0.05):
        stubborn()


def test_one_that_is_lost_is_raised_again() -> None:
    swallowed = []
    with Watchdog() as watchdog, pytest.raises(OutOfTime), watchdog.within(0.05):
        try:
            spin(60)
        except OutOfTime:
            swallowed.append(1)
        spin(60)
    assert swallowed == [1]


def test_work_that_is_done_in_time_is_not_disturbed() -> None:
    with Watchdog() as watchdog:
        for _ in range(200):
            with watchdog.within(30):
                assert spin(0.001) > 0


def test_it_may_end_at_the_very_moment_of_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing escapes from the block, and nothing comes after it."""
    monkeypatch.setattr(deadline, "LATER_SECONDS", 0.0)
    monkeypatch.setattr(deadline, "AGAIN_SECONDS", 0.0005)
    stopped = 0
    with Watchdog() as watchdog:
        for number in range(300):
            try:
                with watchdog.within(0.002):
                    spin(0.0017 + 0.000002 * number)
            except OutOfTime:
                stopped += 1
            spin(0.0005)
    assert 0 < stopped <= 300


def test_without_a_limit_no_thread_is_started_and_none_is_left() -> None:
    before = threading.active_count()
    with Watchdog() as watchdog:
        with watchdog.within(math.inf):
            assert threading.active_count() == before
        with watchdog.within(60):
            assert threading.active_count() == before + 1
    assert threading.active_count() == before
