"""Where a run turned for the worse: its loss had come down, and ends well above that."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from itertools import accumulate

from lossleuth.types.cause import Limit
from lossleuth.types.evidence import Evidence

MIN_WINDOW = Limit(4, "fewest losses that a mean is taken over")
WINDOWS_OF_RUN = Limit(10, "means are taken over one in so many of the run's losses")
MIN_RISE = Limit(0.1, "least share of its fall that a rising loss has lost again")
MIN_FALL_RISING = Limit(0.3, "least fall, in nats, that a rise is compared with")
LIMITS = (MIN_WINDOW, WINDOWS_OF_RUN, MIN_RISE, MIN_FALL_RISING)
# Standard errors by which a rise is beyond the noise of the batches: the lowest of many means is
# low by chance.
SURE = 4.0
# Relative: means that differ by less are the same, but for the rounding of sums over long runs.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Turn:
    """A loss that was lowest before some step, and rose after it."""

    # The first step after the window of the lowest mean.
    step: int
    lowest: float
    end: float
    # Standard error of what lies between the two.
    error: float

    @property
    def is_sure(self) -> bool:
        """Whether it is more than noise."""
        return self.end - self.lowest > SURE * self.error

    @property
    def sentence(self) -> str:
        """For people."""
        return f"the loss falls to {self.lowest:.3f} and ends at {self.end:.3f}"


def turn(evidence: Evidence) -> Turn | None:
    """The turn of a run whose losses are all finite, if there is one.

    >>> from lossleuth.types.observed import Step
    >>> losses = [4.0, *[1.0] * 5, *[3.0] * 6]
    >>> turn(Evidence(steps=[Step(step=i, loss=x) for i, x in enumerate(losses)]))
    Turn(step=6, lowest=1.0, end=3.0, error=0.0)
    """
    known = [(step.step, step.loss) for step in evidence.steps if step.loss is not None]
    losses = [loss for _, loss in known]
    width = window_width(losses)
    if len(losses) < 2 * width or not all(map(math.isfinite, losses)):
        return None
    means = window_means(losses)
    # The last of the lowest: the run was well until then.
    lowest, end = min(means), means[-1]
    rounding = ROUNDING * max(map(abs, losses))
    at = max(i for i, mean in enumerate(means) if mean <= lowest + rounding)
    if end <= lowest + MIN_RISE * max(abs(losses[0] - lowest), MIN_FALL_RISING):
        return None
    spread = [statistics.stdev(window) for window in (losses[at : at + width], losses[-width:])]
    return Turn(known[at + width][0], lowest, end, math.hypot(*spread) / math.sqrt(width))


def window_width(losses: list[float]) -> int:
    """How many losses a mean is taken over: single batches are noisy."""
    return max(int(MIN_WINDOW), len(losses) // int(WINDOWS_OF_RUN))


def window_means(losses: list[float]) -> list[float]:
    """The mean over each window of the run, the last one at its end."""
    width = min(window_width(losses), len(losses))
    # A run may have a hundred thousand steps: each loss is added once.
    sums = [0.0, *accumulate(losses)]
    return [(end - begin) / width for begin, end in zip(sums, sums[width:], strict=False)]
