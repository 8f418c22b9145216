"""Which steps of a run are recorded on a tape, and which of those are analysed."""

from __future__ import annotations

from collections.abc import Iterable

# Until then, optimizers are those that the program begins with; after a later one, which steps of
# its phase are recorded, and of how many phases.
EARLY, PHASE_STEPS, MAX_PHASES = 20, (1, 8, 40), 2


class WantedSteps:
    """The steps that were asked for, and those of phases that begin later.

    >>> wanted = WantedSteps([3])
    >>> wanted.take(3)
    >>> 3 in wanted, wanted.is_looked_at(3)
    (False, True)
    """

    def __init__(self, steps: Iterable[int]) -> None:
        self._steps = set(steps)
        self._looked_at = set(self._steps)
        self._phases = 0
        self._all = False

    def __contains__(self, step: int) -> bool:
        return self._all or step in self._steps

    def is_looked_at(self, step: int) -> bool:
        """Whether a step was asked for, and is not recorded for an evaluation's sake alone."""
        return step in self._looked_at

    def want_all(self) -> None:
        """Record every step from now on."""
        self._all = True

    def new_phase(self, step: int) -> None:
        """An optimizer that is made late begins something new: its first steps are wanted too."""
        if step > EARLY and self._looked_at and self._phases < MAX_PHASES:
            self._phases += 1
            wanted = {step + after for after in PHASE_STEPS}
            self._steps |= wanted
            self._looked_at |= wanted

    def take(self, step: int) -> None:
        """Called when a step is being recorded."""
        self._steps.discard(step)

    def put_back(self, step: int) -> None:
        """Called when a step was not recorded after all."""
        self._steps.add(step)
