"""What is minimised at each step: temperature and weights as pure functions of the step.

What is minimised may move; what is measured never does, and is nowhere in this file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lossleuth.types.errors import BadInput

CURVES = ("linear", "cosine")
TABLE_ROWS = 5


@dataclass(frozen=True)
class Ramp:
    """A value that goes from `start` at the first step to `end` at the last.

    >>> [Ramp(2.0, 1.5, "linear").at(step, 5) for step in (0, 2, 4)]
    [2.0, 1.75, 1.5]
    >>> round(Ramp(2.0, 1.5, "cosine").at(1, 5), 4)
    1.9268
    """

    start: float
    end: float
    curve: str = "linear"

    def at(self, step: int, steps: int) -> float:
        """The value at a step of a run of so many."""
        if self.start == self.end:
            return self.start
        share = min(1.0, step / max(1, steps - 1))
        if self.curve == "cosine":
            share = 0.5 * (1 - math.cos(math.pi * share))
        return self.start + (self.end - self.start) * share


@dataclass(frozen=True)
class Curriculum:
    """Temperature and the weight of each part over a run.

    >>> weights = {"distil": Ramp(0.9, 0.5), "data": Ramp(0.1, 0.5)}
    >>> curriculum = Curriculum(Ramp(2.0, 1.0), weights, steps=3)
    >>> curriculum.temperature(1), curriculum.weights(2)
    (1.5, {'distil': 0.5, 'data': 0.5})
    """

    ramp: Ramp
    parts: Mapping[str, Ramp]
    steps: int

    def __post_init__(self) -> None:
        if not min(self.ramp.start, self.ramp.end) > 0:
            found = f"{self.ramp.start:g} to {self.ramp.end:g}"
            raise BadInput("temperatures above 0", found, "change --temperature")
        for name, ramp in self.parts.items():
            if min(ramp.start, ramp.end) < 0:
                found = f"{ramp.start:g} to {ramp.end:g}"
                raise BadInput(f"weights of at least 0 for {name}", found, "change its weight")
        for step in (0, self.steps - 1):
            if not sum(self.weights(step).values()) > 0:
                raise BadInput(
                    "weights that sum to more than 0 at every step",
                    f"a sum of 0 at step {step + 1} of {self.steps}",
                    "raise a weight: with none there is nothing to learn",
                )

    def temperature(self, step: int) -> float:
        """The temperature at a step."""
        return self.ramp.at(step, self.steps)

    def weights(self, step: int) -> dict[str, float]:
        """The weight of each part at a step."""
        return {name: ramp.at(step, self.steps) for name, ramp in self.parts.items()}

    def rows(self) -> list[tuple[int, float, dict[str, float]]]:
        """Step (from 1), temperature and weights, at steps spread over the run."""
        last = self.steps - 1
        shown = sorted({round(last * i / (TABLE_ROWS - 1)) for i in range(TABLE_ROWS)})
        return [(step + 1, self.temperature(step), self.weights(step)) for step in shown]

    def table(self) -> list[str]:
        """The curriculum as lines of text.

        >>> print(*Curriculum(Ramp(2, 1), {"distil": Ramp(1, 1)}, steps=3).table(), sep="\\n")
        curriculum   step  temperature  distil
                        1        2.000   1.000
                        2        1.500   1.000
                        3        1.000   1.000
        """
        widths = {name: max(6, len(name)) for name in self.parts}
        names = "  ".join(f"{name:>{widths[name]}}" for name in self.parts)
        lines = [f"curriculum {'step':>6}  temperature  {names}"]
        for step, temperature, weights in self.rows():
            values = "  ".join(f"{weights[name]:>{widths[name]}.3f}" for name in self.parts)
            lines.append(f"{'':11}{step:>6}  {temperature:>11.3f}  {values}")
        return lines
