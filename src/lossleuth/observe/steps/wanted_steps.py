"""Which steps of a run are recorded on a tape, and which of those are analysed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from time import perf_counter

from lossleuth.observe.sampling import is_sampled
from lossleuth.observe.steps.pacing import Pacing
from lossleuth.observe.steps.reading_rhythm import ReadingRhythm

# What begins fewer steps after something else belongs to that: optimizers are made and first used
# one after the other. Eight are the fewest that are judged (`types/phases.py`).
APART = 8
# Steps of a later phase that are recorded, and of how many phases. Where steps are paced, the pace
# decides.
PHASE_STEPS, MAX_PHASES = (1, 8, 40), 2


class WantedSteps:
    """The steps that were asked for, those of phases that begin later, and those that are due.

    >>> wanted = WantedSteps([3])
    >>> wanted.take(3)
    >>> 3 in wanted, wanted.is_looked_at(3)
    (False, True)
    """

    def __init__(self, steps: Iterable[int], pacing: Pacing | None = None) -> None:
        self._steps = set(steps)
        self._looked_at = set(self._steps)
        self._pacing = pacing
        self._phases = 0
        self._rhythm = ReadingRhythm()
        # The last step whose recording was begun.
        self._taken = -1
        # The step that began what is trained now, as far as that is known.
        self.phase_first = 0
        # From which on all are recorded.
        self._all_from: float = math.inf

    def __contains__(self, step: int) -> bool:
        return step >= self._all_from or step in self._steps or self._is_due(step)

    def is_looked_at(self, step: int) -> bool:
        """Whether a step was asked for, and is not recorded for an evaluation's sake alone."""
        return step in self._looked_at

    def is_sampled(self, step: int) -> bool:
        """Whether values that seldom change are read in it: often at the beginning of a phase."""
        return is_sampled(step) or is_sampled(step - self.phase_first)

    def is_late(self, step: int) -> bool:
        """Whether what begins at this step is not what the program begins with."""
        return step > APART

    def want_all(self, first: int = 0) -> None:
        """Record every step from this one on."""
        self._all_from = first

    def new_phase(self, step: int) -> None:
        """An optimizer that is made late begins something new: its first steps are wanted too."""
        if step + 1 - self.phase_first <= APART:
            return
        self.phase_first = step + 1
        if self._pacing is not None:
            self._pacing.new_phase(step + 1)
        elif self._looked_at and self._phases < MAX_PHASES:
            self._phases += 1
            wanted = {step + after for after in PHASE_STEPS}
            self._steps |= wanted
            self._looked_at |= wanted

    def take(self, step: int) -> None:
        """Called when a step is being recorded."""
        self._steps.discard(step)
        self._taken = step
        if self._pacing is not None:
            if self._is_due(step):
                self._looked_at.add(step)
            counts = step in self._looked_at
            self._pacing.begin(step if counts else None, perf_counter())

    def put_back(self, step: int) -> None:
        """Called when a step was not recorded after all."""
        self._steps.add(step)

    def over(self) -> None:
        """Called when a step was recorded and looked at."""
        if self._pacing is not None:
            self._pacing.end(perf_counter())

    def read(self, line: str, step: int) -> None:
        """Called when a line of the program reads a number in a step."""
        if self._pacing is not None:
            self._rhythm.read(line, step, recorded=step == self._taken)

    def _is_due(self, step: int) -> bool:
        if self._pacing is None:
            return False
        return self._pacing.is_due(step, perf_counter(), asked=self._rhythm.is_due(step))
