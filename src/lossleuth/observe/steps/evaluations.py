"""Which updates an evaluation follows, and when the next one is due.

An evaluation shows by lookups of tokens without gradients, more of them than between other updates:
a teacher has some at every step. Once two are known, the next can be foreseen and recorded.
"""

from __future__ import annotations

import os

from lossleuth.findings.evaluation import Evaluation
from lossleuth.tape.window import Window

# Start at most this many recordings of an evaluation; stop after this many good ones.
MAX_RECORDINGS, ENOUGH_EVALUATIONS = 4, 2
# After this many operations, no further batch of an evaluation is recorded.
MAX_OPERATIONS = 40_000
# Remember at most this many steps with an evaluation.
MAX_REMEMBERED = 4096


class Evaluations:
    """Counts lookups without gradients between one update and the next."""

    def __init__(self, *, records: bool = False) -> None:
        # Whether recordings are wanted at all.
        self.records = records
        self._step = 0
        self._lookups = 0
        # Lookups before each step that had any, and the fewest before any step.
        self._counts: dict[int, int] = {}
        self._fewest: int | None = None
        self._compared: set[int] = set()
        self._is_due = False
        self._begun = 0
        self._found = 0

    def looked_up(self) -> None:
        """Called when tokens are looked up without gradients."""
        self._lookups += 1

    def compared(self) -> None:
        """Called when a loss is computed without gradients: not just text generation."""
        self._compared.add(self._step)

    @property
    def has_begun(self) -> bool:
        """Whether tokens were looked up without gradients since the last update."""
        return bool(self._lookups)

    @property
    def surely(self) -> list[int]:
        """Those of them in which something was compared."""
        return [step for step in self.steps if step in self._compared]

    @property
    def steps(self) -> list[int]:
        """The steps before which there was an evaluation."""
        counts = self._counts | ({self._step: self._lookups} if self._lookups else {})
        fewest = 0 if self._fewest is None else self._fewest
        found = [step for step, count in counts.items() if count > fewest]
        # Where some compare, the others are something else.
        return [step for step in found if step in self._compared] or found

    def begin(self, step: int) -> bool:
        """A step begins; whether it is to be recorded because an evaluation is due before it."""
        if step != self._step:
            fewest = self._lookups if self._fewest is None else min(self._fewest, self._lookups)
            self._fewest = fewest
            if self._lookups and len(self._counts) < MAX_REMEMBERED:
                self._counts[self._step] = self._lookups
            self._step, self._lookups = step, 0
            due = self.records and step == _following(self.steps)
            self._is_due = due and self._found < ENOUGH_EVALUATIONS and self._begun < MAX_RECORDINGS
            self._begun += self._is_due
        return self._is_due

    def looked(self, found: Evaluation | None) -> None:
        """A recording was looked at, with this evaluation in it."""
        if found is not None and found.metrics and self._step:
            self._found += 1

    def is_too_long(self, window: Window) -> bool:
        """Whether what was recorded before any training is more than can be looked at."""
        return not window.backwards and len(window.tape.operations) > MAX_OPERATIONS


def _following(steps: list[int]) -> int | None:
    """When the next is due.

    >>> _following([50]), _following([1, 51]), _following([0])
    (100, 101, None)
    """
    known = [0, *steps][-2:]
    return 2 * known[1] - known[0] if len(known) > 1 and known[1] > known[0] else None


def printed_so_far() -> int:
    """How many bytes the program has printed, where that goes to a file."""
    try:
        return os.fstat(1).st_size
    except OSError:
        return 0
