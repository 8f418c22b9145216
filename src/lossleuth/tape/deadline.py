"""A deadline for our own work inside the user's process.

Replays look at the clock between operations. Work that does not is stopped a little later by an
exception that another thread raises in it, which Python delivers between two of its instructions:
one long call into torch or another library ends first.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable
from time import monotonic, sleep
from types import TracebackType
from typing import TypeVar

# How much later work is interrupted that does not look at the clock, and how often from then on:
# an exception in a destructor is lost.
LATER_SECONDS, AGAIN_SECONDS = 0.5, 0.5
# How often the other thread looks whether a deadline has been set.
LOOK_SECONDS = 0.05
T = TypeVar("T")


class OutOfTime(BaseException):
    """The work has run over; no `except Exception` keeps it alive."""


class _Clock(threading.local):
    until = math.inf


_clock = _Clock()


def check() -> None:
    """Raise OutOfTime if the work of this thread has run over."""
    if monotonic() > _clock.until:
        raise OutOfTime


class Watchdog:
    """Stops what runs over in this thread; nothing of it is left when the block is left.

    The two threads share plain attributes and no lock: an exception that comes while a thread holds
    a lock would leave it locked.

    >>> def forever():
    ...     while True:
    ...         check()
    >>> with Watchdog() as watchdog:
    ...     watchdog.call(forever, 0.01)
    Traceback (most recent call last):
    ...
    lossleuth.tape.deadline.OutOfTime
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._watched = threading.get_ident()
        self._until = math.inf
        # Whether the other thread is about to raise.
        self._raising = False
        self._closed = threading.Event()

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            self._closed.set()
            self._thread.join()

    def call(self, work: Callable[[], T], seconds: float) -> T:
        """What the work gives; OutOfTime after so many seconds. There is no limit in infinity."""
        if seconds == math.inf:
            return work()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        try:
            try:
                _clock.until = monotonic() + seconds
                self._until = _clock.until + LATER_SECONDS
                return work()
            finally:
                self._disarm()
        except OutOfTime:
            # It may have come on the way to calling it off.
            self._disarm()
            raise

    def _disarm(self) -> None:
        """From here on nothing is raised, and nothing that was is still to come."""
        while True:
            try:
                self._until = _clock.until = math.inf
                # The other thread looks at the time once more after it has said this.
                while self._raising:
                    sleep(0)
                self._raise(None)
                return
            except OutOfTime:
                # It came while it was being called off.
                continue

    def _watch(self) -> None:
        while not self._closed.wait(min(max(self._until - monotonic(), 0.0), LOOK_SECONDS)):
            if self._until <= monotonic():
                self._raising = True
                if self._until <= monotonic():
                    self._raise(OutOfTime)
                self._raising = False
                self._closed.wait(AGAIN_SECONDS)

    def _raise(self, error: type[BaseException] | None) -> None:
        thread = ctypes.c_ulong(self._watched)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            thread, None if error is None else ctypes.py_object(error)
        )
