"""Why a finite difference is wrong: its step is too small for the format, or too large.

The central difference of a loss L over a step eps is off by rounding, about u·L/eps with u the
format's rounding, and by truncation, eps²·|L'''|/6. One falls with eps and the other rises: they
cross where eps is the cube root of 6·u·L/|L'''|. Below that the quotient is noise, however right
the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.gradcheck.check import Along, GradientCheck, Outcome
from lossleuth.gradcheck.differences import derivative
from lossleuth.number_formats import FORMATS

EPSILONS = tuple(10.0**-power for power in range(8))
# Differentiate at most this many entries: more add no information.
MAX_ENTRIES = 64


@dataclass(frozen=True)
class Point:
    """Central differences over one step: their errors, as shares of the right derivative."""

    epsilon: float
    median: float
    worst: float
    # What rounding and truncation alone would do to the median entry.
    rounding: float
    truncation: float


@dataclass(frozen=True)
class Sweep:
    """All steps for one loss in one format."""

    format: str
    entries: int
    points: tuple[Point, ...]
    # Where rounding and truncation are equal, for the median entry.
    crossing: float
    # Along all entries at once: the right slope, and its estimate from differences of values alone.
    slope: float
    told: float
    bound: float

    @property
    def best(self) -> Point:
        """The step with the smallest error."""
        return min(self.points, key=lambda point: point.median)

    def at(self, epsilon: float) -> Point:
        """The point at a step."""
        return min(self.points, key=lambda point: abs(math.log10(point.epsilon / epsilon)))

    def picture(self) -> str:
        """Error over step, drawn as `check_gradient` draws it; the median entry's."""
        steps = tuple((point.epsilon, 1 + point.median) for point in self.points)
        along = Along("", Outcome.PASS, 1.0, 1.0, 0.0, "", sweep=lambda: steps)
        return GradientCheck(Outcome.PASS, along).picture()


def sweep_of(logits_V: Tensor, target: int, format: str) -> Sweep:
    """Differences of the cross-entropy of one position, entry by entry, in a format.

    >>> swept = sweep_of(torch.linspace(-1, 1, 34), 5, "float32")
    >>> swept.at(1e-5).median > 0.1 > 100 * swept.at(1e-2).median
    True
    """
    dtype, kind = getattr(torch, format), FORMATS[format]
    x_V = logits_V.to(dtype)
    chosen = torch.arange(len(x_V))[:: max(1, len(x_V) // MAX_ENTRIES)][:MAX_ENTRIES]
    p = x_V.double().softmax(-1)
    right = p.clone()
    right[target] = float(p[target] - 1)
    third = (p * (1 - p) * (1 - 2 * p))[chosen].abs()
    right, labels = right[chosen], torch.full((len(chosen),), target)
    loss = float(F.cross_entropy(x_V.double()[None], labels[:1]))
    points = []
    for epsilon in EPSILONS:
        high, low = (_losses(x_V, chosen, labels, sign * epsilon) for sign in (1, -1))
        error = ((high - low) / (2 * epsilon) / right - 1).abs()
        rounding = (kind.rounding * loss / epsilon / right.abs()).median()
        truncation = (epsilon**2 * third / 6 / right.abs()).median()
        points.append(
            Point(epsilon, *map(float, (error.median(), error.max(), rounding, truncation)))
        )
    size = float(third.median())
    crossing = (6 * kind.rounding * loss / size) ** (1 / 3) if size else math.inf
    direction_V = torch.ones(len(x_V), dtype=torch.float64)
    direction_V[::2] = -1
    true = float((p - F.one_hot(torch.tensor(target), len(p))) @ direction_V)
    found = derivative(_along(x_V, target, direction_V), epsilon=2 * kind.rounding)
    return Sweep(format, len(chosen), tuple(points), crossing, true, found.value, found.bound)


def _losses(x_V: Tensor, chosen: Tensor, labels: Tensor, shift: float) -> Tensor:
    """The loss with each chosen entry shifted by itself, in the logits' own format."""
    x_nV = x_V.repeat(len(chosen), 1)
    x_nV[torch.arange(len(chosen)), chosen] += shift
    return F.cross_entropy(x_nV, labels, reduction="none").double()


def _along(x_V: Tensor, target: int, direction_V: Tensor) -> Callable[[float], float]:
    def loss(step: float) -> float:
        moved_V = (x_V.double() + step * direction_V).to(x_V.dtype)
        return float(F.cross_entropy(moved_V[None], torch.tensor([target])))

    return loss
