"""What a record misses, and why; the user is told of each kind once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path


class Shortfall:
    """Counts what could not be written.

    >>> shortfall = Shortfall(Path("run"), print)
    >>> shortfall.miss("No space left on device", 2)
    the record in run misses frames: No space left on device; training goes on
    >>> shortfall.miss("No space left on device")
    >>> shortfall.sentence
    'the record in run misses 3 frames: No space left on device'
    """

    def __init__(self, directory: Path, warn: Callable[[str], None]) -> None:
        self.lost = 0
        """How many frames could not be written."""
        self.unrecorded = 0
        """How many values and matrices had to be left out of frames that were written."""
        self._directory = directory
        self._warn = warn
        self._why_gone: str | None = None
        self._why_lost: str | None = None
        self._why_unrecorded: str | None = None

    @property
    def sentence(self) -> str | None:
        """One sentence on what the record lacks and why; None if it is complete."""
        said = []
        if self.lost:
            said.append(f"misses {self.lost} frames: {self._why_gone or self._why_lost}")
        elif self._why_gone:
            said.append(self._why_gone)
        if self.unrecorded:
            said.append(f"misses {self.unrecorded} values, the first: {self._why_unrecorded}")
        return f"the record in {self._directory} {', and '.join(said)}" if said else None

    def miss(self, why: str | None, count: int = 1) -> None:
        """Count frames that were lost."""
        self.lost += count
        if why is not None:
            self.explain(why)

    def explain(self, why: str) -> None:
        """Say once why frames are lost."""
        if self._why_lost is None and self._why_gone is None:
            self._why_lost = why
            self._tell(f"misses frames: {why}")

    def leave_out(self, what: str) -> None:
        """Count a value that cannot be recorded."""
        self.unrecorded += 1
        if self._why_unrecorded is None:
            self._why_unrecorded = what
            self._tell(f"misses values: {what}")

    def gone(self, why: str) -> None:
        """The log itself is no longer there, or no longer ours."""
        self._why_gone = why
        self._tell(why)

    def _tell(self, what: str) -> None:
        with contextlib.suppress(Exception):
            self._warn(f"the record in {self._directory} {what}; training goes on")
