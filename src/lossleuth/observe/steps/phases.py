"""Where the time of a step goes: batch, forward, backward, clip, update, something else."""

from __future__ import annotations

from time import perf_counter


class Phases:
    """Adds up the seconds of each phase; what lies between two marks belongs to the second.

    >>> phases, seconds = Phases(perf_counter()), {}
    >>> phases.mark(seconds, "forward")
    >>> phases.backward_ended = perf_counter()
    >>> phases.mark(seconds, "update")
    >>> list(seconds)
    ['forward', 'backward', 'update']
    """

    def __init__(self, now: float) -> None:
        # On the clock of `perf_counter`; the record counts from here.
        self.run_began = now
        self._began = now
        self._own_seconds = 0.0
        # Only noted by the hook, and added when the next phase is: a call less after each backward.
        self.backward_ended: float | None = None

    def mark(self, seconds: dict[str, float], phase: str) -> None:
        """A phase ends now."""
        now = perf_counter()
        self._end_backward(seconds)
        self._add(seconds, phase, now)

    def close(self, seconds: dict[str, float], now: float) -> None:
        """The step is over; what follows belongs to the next."""
        self._end_backward(seconds)
        self._began = now

    def take_own(self, own_seconds: float) -> float:
        """What our hooks took since the last time, of what they took in all."""
        taken, self._own_seconds = own_seconds - self._own_seconds, own_seconds
        return taken

    def _end_backward(self, seconds: dict[str, float]) -> None:
        ended, self.backward_ended = self.backward_ended, None
        if ended is not None:
            self._add(seconds, "backward", ended)

    def _add(self, seconds: dict[str, float], phase: str, until: float) -> None:
        seconds[phase] = seconds.get(phase, 0.0) + until - self._began
        self._began = until
