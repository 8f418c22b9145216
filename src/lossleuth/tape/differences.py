"""Derivatives from values of a function alone, with a bound of their error.

Central differences at shrinking steps are extrapolated to a step of zero (Richardson, in the
manner of Ridders). Large steps suffer from the function's curvature, small ones from rounding;
what neighbouring extrapolations disagree by, and the rounding of the values, bound the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

SHRINK = 1.6
MOST_STEPS = 14


@dataclass(frozen=True)
class Derivative:
    """A derivative at 0, a bound of its error, and the errors at each step that was tried."""

    value: float
    bound: float
    # Step and plain central difference, the largest step first.
    sweep: tuple[tuple[float, float], ...]


def derivative(
    function: Callable[[float], float], *, scale: float = 1.0, epsilon: float = 2.0**-52
) -> Derivative:
    """The derivative of a function of one number at 0.

    `scale` is a step over which it changes noticeably, `epsilon` the relative rounding error of
    its values.

    >>> found = derivative(lambda t: math.exp(2 * t))
    >>> abs(found.value - 2) <= found.bound < 1e-9
    True
    """
    middle = abs(function(0.0))
    tableau: list[list[float]] = []
    sweep: list[tuple[float, float]] = []
    best, bound = math.nan, math.inf
    step = scale / 4
    for i in range(MOST_STEPS):
        high, low = function(step), function(-step)
        slope = (high - low) / (2 * step)
        sweep.append((step, slope))
        noise = epsilon * max(abs(high), abs(low), middle) / step
        row = [slope]
        factor = SHRINK**2
        for j in range(1, i + 1):
            row.append((row[j - 1] * factor - tableau[i - 1][j - 1]) / (factor - 1))
            factor *= SHRINK**2
            guess = max(abs(row[j] - row[j - 1]), abs(row[j] - tableau[i - 1][j - 1]))
            # Extrapolation multiplies the noise of what it combines; twice it is enough here.
            guess = guess + 2 * noise
            if guess < bound:
                best, bound = row[j], guess
        tableau.append(row)
        if i and not math.isfinite(row[-1]):
            break
        if i > 3 and abs(row[i] - tableau[i - 1][i - 1]) > 4 * bound:
            break
        step /= SHRINK
    return Derivative(best, bound, tuple(sweep))
