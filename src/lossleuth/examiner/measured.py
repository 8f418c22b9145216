"""The loss of a run, as its record has it: at its end, and at its beginning."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lossleuth.findings.loss import TrueLoss
from lossleuth.record.read import Record
from lossleuth.record.recorded_steps import recorded_steps

# Steps at the end over which the loss is averaged: a fifth of the run, within limits.
MIN_MEASURED_STEPS, MAX_MEASURED_STEPS = 4, 10


@dataclass(frozen=True)
class Measured:
    """The loss at the end of a run, batch by batch, and at its beginning."""

    losses: tuple[float, ...]
    start: float
    measure: str
    # The steps of those batches: only the same can be compared.
    steps: tuple[int, ...] = ()
    # The differentiated loss at the end, where the measure is the true one: runs of other lengths
    # of text may have no true loss.
    differentiated: Measured | None = field(default=None, compare=False, repr=False)

    @property
    def end(self) -> float:
        """Mean over the last batches; infinite if any is not a number."""
        if not self.losses or not all(map(math.isfinite, self.losses)):
            return math.inf
        return statistics.fmean(self.losses)

    def at(self, steps: Sequence[int]) -> Measured:
        """The same at those of its steps that are among others."""
        pairs = zip(self.steps, self.losses, strict=False)
        chosen = [(step, loss) for step, loss in pairs if step in steps]
        losses = tuple(loss for _, loss in chosen)
        return replace(self, losses=losses, steps=tuple(step for step, _ in chosen))

    @property
    def steps_range(self) -> str:
        """The steps in words."""
        return f"steps {self.steps[0]} to {self.steps[-1]}" if self.steps else "no step"


def measured_steps(steps: int) -> range:
    """The last steps of a run, over which its loss is averaged.

    >>> list(measured_steps(20))
    [16, 17, 18, 19]
    """
    count = max(MIN_MEASURED_STEPS, min(MAX_MEASURED_STEPS, steps // 5))
    return range(max(1, steps - count), steps)


def measured(record: Record, steps: int, first: int = 0) -> Measured | str:
    """What a run's record says of its loss, in so many steps from the first one on."""
    found: dict[int, float] = {}
    for step in recorded_steps(record, ("true_loss", "tape")):
        true = step.first(TrueLoss)
        if true is not None and true.loss is not None:
            found[step.step - first] = true.loss
    count = max(MIN_MEASURED_STEPS, min(MAX_MEASURED_STEPS, steps // 5))
    last = {step: loss for step, loss in found.items() if step >= max(0, steps - count)}
    differentiated = _differentiated(record, steps, first, count)
    if len(last) < MIN_MEASURED_STEPS - 1:
        return differentiated
    early = [loss for step, loss in found.items() if 0 <= step <= 1]
    start = early[0] if early else math.nan
    other = differentiated if isinstance(differentiated, Measured) else None
    return Measured(tuple(last.values()), start, "true loss", tuple(last), other)


def _differentiated(record: Record, steps: int, first: int, count: int) -> Measured | str:
    """The same by the loss that is differentiated."""
    losses = [float(x) for x in record.series("loss")] if "loss" in record.scalar_names else []
    losses = losses[first:]
    broken = [x for x in losses if not math.isfinite(x)]
    if broken:
        return Measured((math.inf,), losses[0], "differentiated loss")
    if len(losses) < min(steps, MIN_MEASURED_STEPS):
        return f"it made {len(losses)} steps, where {steps} were expected"
    at = tuple(range(len(losses))[-count:])
    return Measured(tuple(losses[-count:]), losses[0], "differentiated loss", at)
