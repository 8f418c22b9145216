"""Where over depth the gradient that was used departs from the true one.

At the result of every module the gradient that the engine had is compared with the true one, from
the loss backwards: the first that departs has the fault between it and the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.tape.replay.distance import distance, norm
from lossleuth.tape.replay.gradients import shared_gradients
from lossleuth.tape.replay.substitutes import CannotReplay
from lossleuth.tape.window import Backward, Window

# Times its floor, and in itself, that an error has to be for a departure.
TIMES_FLOOR, LEAST = 10.0, 1e-6


@dataclass(frozen=True)
class Rung:
    """The result of a module: the error of its gradient as a share of its norm, and its floor."""

    module: str
    file: str | None
    line: int | None
    error: float
    floor: float

    @property
    def departs(self) -> bool:
        """Whether rounding does not explain it."""
        return self.error > LEAST and self.error > TIMES_FLOOR * self.floor


@dataclass(frozen=True)
class Depth:
    """The ladder from the loss backwards, and its first rung that departs from the truth."""

    rungs: tuple[Rung, ...]
    first: Rung | None
    # The last one, nearer to the loss, that is still true.
    last_true: Rung | None
    untested: str | None = None


def depth(window: Window, run: Backward) -> Depth:
    """Compare at the results of modules, those nearest to the loss first."""
    tape = window.tape
    try:
        true = shared_gradients(window, run, wide=True).gradients
        noisy = shared_gradients(window, run, wide=False).gradients
    except CannotReplay as reason:
        return Depth((), None, None, str(reason))
    makers = tape.makers()
    # What was overwritten later has another gradient than it had then.
    written = {tape.groups[i] for operation in tape.operations for i in operation.written}
    rungs = []
    for number, used in sorted(run.at_boundaries.items(), reverse=True):
        wanted = true.get(number)
        size = norm([wanted])
        if wanted is None or not size or tape.groups[number] in written:
            continue
        maker = makers.get(number)
        place = None if maker is None else maker.place
        file, line = (None, None) if place is None else (place.file, place.line)
        error = distance(used, wanted) / size
        floor = distance(noisy.get(number), wanted) / size
        rungs.append(Rung(window.boundaries[number], file, line, error, floor))
    first = next((i for i, rung in enumerate(rungs) if rung.departs), None)
    if first is None:
        return Depth(tuple(rungs), None, rungs[-1] if rungs else None)
    return Depth(tuple(rungs), rungs[first], rungs[first - 1] if first else None)
