"""When a run has been seen for long enough, it is stopped from inside."""

from __future__ import annotations

import time


class StopRun(BaseException):
    """Ends the script; no `except Exception` of its own holds it up."""


class InterventionFailed(BaseException):
    """A change could not be made: then the run says nothing, and ends."""


class Limit:
    """Steps and seconds that a run may take; without either, it is never stopped.

    >>> limit = Limit(steps=2)
    >>> limit.is_reached(steps=1, backwards=1), limit.is_reached(steps=2, backwards=2)
    (False, True)
    """

    # Backward passes in vain, for each step that was wanted.
    PATIENCE = 1
    FEWEST = 128
    # A script that catches everything is told so often to stop.
    MOST_STOPS = 3

    def __init__(self, steps: int | None = None, seconds: float | None = None) -> None:
        self._steps = steps
        self._seconds = seconds
        self._began: float | None = None
        self._told = 0

    def is_reached(self, steps: int, backwards: int) -> bool:
        """Whether to stop, after so many steps and so many backward passes in all."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if self._seconds is not None and now - self._began > self._seconds:
            return True
        if self._steps is None:
            return False
        in_vain = not steps and backwards >= max(self.FEWEST, self.PATIENCE * self._steps)
        return steps >= self._steps or in_vain

    def is_ignored(self) -> bool:
        """Note that the script is told to stop; whether it was told in vain before."""
        self._told += 1
        return self._told > self.MOST_STOPS
