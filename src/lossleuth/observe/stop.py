"""Stops a run from inside once enough of it has been seen."""

from __future__ import annotations

import math
import time


class StopRun(BaseException):
    """Ends the script; its own `except Exception` does not catch this."""


class InterventionFailed(BaseException):
    """A change could not be applied, so the run is useless and ends."""


class Limit:
    """Limits a run to so many steps and seconds, and to a time; without any, it is never stopped.

    >>> limit = Limit(steps=2)
    >>> limit.is_reached(steps=1, backwards=1), limit.is_reached(steps=2, backwards=2)
    (False, True)
    """

    # Backward passes without a single step before giving up: as many as steps are wanted, and more
    # than any run accumulates over.
    MIN_BACKWARDS = 1100
    # A script that catches BaseException is asked this often to stop, then killed.
    MAX_STOPS = 3

    def __init__(
        self,
        steps: int | None = None,
        seconds: float | None = None,
        until: float = math.inf,
    ) -> None:
        self._steps = steps
        self._seconds = seconds
        # In seconds since the epoch.
        self._until = until
        self._began: float | None = None
        self._stops = 0

    def is_reached(self, steps: int, backwards: int) -> bool:
        """Whether to stop after this many steps and backward passes."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if self._seconds is not None and now - self._began > self._seconds:
            return True
        if time.time() > self._until:
            return True
        if self._steps is None and self._seconds is None:
            return False
        hopeless = not steps and backwards >= max(self.MIN_BACKWARDS, self._steps or 0)
        return hopeless or (self._steps is not None and steps >= self._steps)

    def is_ignored(self) -> bool:
        """Count a request to stop; whether the script has ignored all that were allowed."""
        self._stops += 1
        return self._stops > self.MAX_STOPS
