"""A deadline for our own work inside the user's process.

Replays look at the clock between operations. Work that does not is stopped a little later by an
exception that another thread raises in it, which Python delivers between two of its instructions:
one long call into torch or another library ends first.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType

# How much later work is interrupted that does not look at the clock, and how often from then on:
# an exception in a destructor is lost.
LATER_SECONDS, AGAIN_SECONDS = 0.5, 0.5


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

    >>> with Watchdog() as watchdog:
    ...     with watchdog.within(0.01):
    ...         while True:
    ...             check()
    Traceback (most recent call last):
    ...
    lossleuth.tape.deadline.OutOfTime
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._watched = threading.get_ident()
        self._news = threading.Condition()
        self._until = math.inf
        self._closed = False

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            with self._news:
                self._closed = True
                self._news.notify()
            self._thread.join()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Raise OutOfTime in this block after so many seconds; there is no limit in infinity."""
        if seconds == math.inf:
            yield
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        try:
            _clock.until = monotonic() + seconds
            with self._news:
                self._until = _clock.until + LATER_SECONDS
                self._news.notify()
            yield
        finally:
            self._disarm()

    def _disarm(self) -> None:
        """From here on nothing is raised, and nothing that was is still to come."""
        while True:
            try:
                with self._news:
                    self._until = _clock.until = math.inf
                    self._raise(None)
                return
            except OutOfTime:
                # It came while it was being called off.
                continue

    def _watch(self) -> None:
        with self._news:
            while not self._closed:
                left = self._until - monotonic()
                if left <= 0:
                    self._raise(OutOfTime)
                    left = AGAIN_SECONDS
                self._news.wait(None if left == math.inf else left)

    def _raise(self, error: type[BaseException] | None) -> None:
        thread = ctypes.c_ulong(self._watched)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            thread, None if error is None else ctypes.py_object(error)
        )
