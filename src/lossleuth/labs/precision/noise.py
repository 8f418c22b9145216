"""Whether an error matters, compared with the noise of the step itself.

The gradient of a batch is a sample. Two halves of the batch differ, and half their difference is
how far the whole is from the gradient of all data. An error that adds next to nothing to that
cannot be told from another order of the same data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from lossleuth.labs.precision.reference import Truth
from lossleuth.labs.precision.step import Step

# An error is irrelevant while it raises the step's noise by less than this share; errors add up as
# squares do.
MAX_ADDED_NOISE = 0.01
IRRELEVANT = math.sqrt((1 + MAX_ADDED_NOISE) ** 2 - 1)

BELOW = "irrelevant below the step's own noise"


@dataclass(frozen=True)
class Noise:
    """The step's own uncertainty."""

    loss: float  # standard error of the batch's mean, in nats
    update: float  # share of the update

    def verdict(self, loss: float, update: float) -> str:
        """What an error of the mean loss in nats, and one of the update as a share of it, mean.

        >>> noise = Noise(loss=0.1, update=0.5)
        >>> noise.verdict(1e-7, 1e-7)
        "irrelevant below the step's own noise"
        >>> noise.verdict(0.0, 0.5), noise.verdict(1.0, 0.0)
        ('matters: update, +41 % noise', 'matters: loss, 10 times its noise')
        >>> noise.verdict(math.nan, 0.0)
        'breaks: not finite'
        """
        if not math.isfinite(loss) or not math.isfinite(update):
            return "breaks: not finite"
        ratio, what = max(
            (ratio_of(update, self.update), "update"), (ratio_of(loss, self.loss), "loss")
        )
        if ratio < IRRELEVANT:
            return BELOW
        added = math.hypot(1, ratio) - 1
        if added > 1:
            return f"matters: {what}, {ratio:.2g} times its noise"
        return f"matters: {what}, +{100 * added:.0f} % noise"


def ratio_of(error: float, noise: float) -> float:
    """An error in units of the noise; of a step without noise, infinite.

    >>> ratio_of(0.0, 0.0), ratio_of(1.0, 0.0), ratio_of(1.0, 4.0)
    (0.0, inf, 0.25)
    """
    if error == 0:
        return 0.0
    return error / noise if noise else math.inf


def noise_of(step: Step, truth: Truth) -> Noise:
    """The noise of a step, from the two halves of its batch."""
    gradient_NV = torch.from_numpy(truth.gradient_NV.astype("float64"))
    halves = []
    for half_N in (step.half_N, ~step.half_N):
        # Of the mean over the half alone.
        share = len(half_N) / int(half_N.sum())
        halves.append(step.update(step.pull(gradient_NV * half_N[:, None]) * share))
    size = float(step.update(step.pull(gradient_NV)).norm())
    apart = float((halves[0] - halves[1]).norm()) / 2
    losses = torch.from_numpy(truth.losses_N.astype("float64"))
    return Noise(float(losses.std()) / math.sqrt(len(losses)), apart / size if size else math.nan)
