"""Derivatives by finite differences, with an error bound.

Central differences at shrinking steps are extrapolated to a step of zero (Richardson, in the
manner of Ridders). Large steps suffer from the function's curvature, small ones from rounding.
What neighbouring extrapolations disagree by, the noise of the values carried through them, and
what smaller steps say against an estimate bound its error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

# Each step is so many times smaller than the one before, and so many are extrapolated. Picked by
# hand.
SHRINK = 1.6
EXTRAPOLATED_STEPS = 14
# Smaller steps, each by about ten: too noisy for an estimate, but they can contradict one. No
# round number, or else 1 + step would be exact and show no rounding.
WITNESSES = 6
WITNESS_SHRINK = math.pi**2
# Neighbouring steps, so that they extrapolate: enough to measure an unknown slope, and to confirm
# one that is known otherwise. Picked by hand.
STEPS_TO_MEASURE = slice(9, 14)
STEPS_TO_CONFIRM = slice(12, 14)
# Longer ones, for values that are rounded to float32 in any case.
STEPS_TO_COMPARE = slice(4, 7)
# Neighbours on either side from which noise is measured. Picked by hand.
NOISE_NEIGHBOURS = 6
# A sample of noise is rarely more than so many times its measured size. Picked by hand.
MAX_NOISE_RATIO = 8.0


@dataclass(frozen=True)
class Derivative:
    """A derivative at 0, its error bound, and the central difference at each step."""

    value: float
    bound: float
    # Step and plain central difference, the largest step first.
    sweep: tuple[tuple[float, float], ...]
    # The bound if it is known that there is no kink.
    smooth_bound: float = math.inf


def derivative(
    function: Callable[[float], float],
    *,
    scale: float = 1.0,
    epsilon: float = 2.0**-52,
    noise: float = 0.0,
    some: slice | None = None,
) -> Derivative:
    """The derivative of a function of one number at 0.

    `scale` is a step over which it changes noticeably, `epsilon` the relative rounding error of
    its values, `noise` an absolute one. At a kink the bound reaches from the slope on one side to
    that on the other. With `some` of the steps, few values are asked for and noise that nobody
    announced is not looked for: enough to confirm a slope, not to deny one.

    >>> found = derivative(lambda t: math.exp(2 * t))
    >>> abs(found.value - 2) <= found.bound < 1e-9
    True
    """
    middle = function(0.0)
    steps = [scale / 4 / SHRINK**i for i in range(EXTRAPOLATED_STEPS)]
    steps += [steps[-1] / WITNESS_SHRINK**i for i in range(1, WITNESSES + 1)]
    steps = steps if some is None else steps[some]
    values = [(function(step), function(-step)) for step in steps]
    sweep = [(s, (high - low) / (2 * s)) for s, (high, low) in zip(steps, values, strict=True)]
    if some is None:
        noise = max(
            noise,
            _noise(function, middle, scale * min(1 / 32, max(2e-4, epsilon))),
            _noise_of_witnesses(sweep[EXTRAPOLATED_STEPS + 2 :]),
            _height_of_stairs(middle, values),
        )
    slopes, kinks = _Limit(2), _Limit(1)
    for i, ((step, slope), (high, low)) in enumerate(zip(sweep, values, strict=True)):
        error = max(noise, epsilon * max(abs(high), abs(low), abs(middle))) / step
        slopes.add(slope, error, extrapolated=i < EXTRAPOLATED_STEPS)
        # Slopes on the two sides; their difference goes to zero unless there is a kink.
        bend = (high - middle) / step - (middle - low) / step
        kinks.add(bend, 4 * error, extrapolated=i < EXTRAPOLATED_STEPS)
    value, bound = slopes.found()
    bend, unsure = kinks.found()
    smooth, bound = bound, bound + (abs(bend) + unsure) / 2
    return Derivative(
        value,
        bound if math.isfinite(bound) else math.inf,
        tuple(sweep),
        smooth if math.isfinite(smooth) else math.inf,
    )


@dataclass
class _Limit:
    """Extrapolate a quantity to step 0; it is even (`first` 2) or odd (1) in the step."""

    first: int
    _row: list[tuple[float, float]] = field(default_factory=list)
    # For each step the estimates that it allows, each with its error.
    _estimates: list[list[tuple[float, float]]] = field(default_factory=list)

    def add(self, plain: float, noise: float, *, extrapolated: bool) -> None:
        """Add a quantity at the next smaller step, with its noise."""
        above, estimates = self._row, []
        row = [(plain, noise)]
        if above:
            # Twice what it moved by: an odd quantity is still 1 / (SHRINK - 1) of that away.
            estimates.append((plain, 2 * abs(plain - above[0][0]) + noise))
        for j in range(1, len(above) + 1 if extrapolated else 1):
            factor = SHRINK ** (self.first + 2 * (j - 1))
            (here, own), (there, other) = row[j - 1], above[j - 1]
            better = (here * factor - there) / (factor - 1)
            row.append((better, (own * factor + other) / (factor - 1)))
            apart = [abs(better - here), abs(better - there)]
            if j < len(above):
                # Two neighbours agree by chance now and then; three seldom do.
                apart.append(abs(better - above[j][0]))
                estimates.append((better, 2 * max(apart) + row[j][1]))
        self._row = row
        if not math.isfinite(plain):
            # Out of the function's domain; smaller steps may be within.
            self._row = []
            estimates = [(math.nan, math.inf)]
        self._estimates.append(estimates)

    def found(self) -> tuple[float, float]:
        """The limit and its error bound, which no smaller step contradicts."""
        best, bound = math.nan, math.inf
        against: list[tuple[float, float]] = []
        for i, estimates in reversed(list(enumerate(self._estimates))):
            # Witnesses only object: on a stair of a rounded function they all agree on 0.
            for value, error in estimates if i < EXTRAPOLATED_STEPS else ():
                objections = [abs(value - other) - unsure for other, unsure in against]
                honest = max([error, *(o + error for o in objections if o > error)])
                if honest < bound:
                    best, bound = value, honest
            if estimates:
                strongest = min(estimates, key=lambda e: e[1])
                if not math.isfinite(strongest[1]) and not math.isfinite(bound):
                    break
                against.append(strongest)
        return best, bound


def _noise(function: Callable[[float], float], middle: float, apart: float) -> float:
    """The noise of values, from high-order differences of neighbours (Hamming; Moré and Wild)."""
    values = [
        middle if i == 0 else function(i * apart)
        for i in range(-NOISE_NEIGHBOURS, NOISE_NEIGHBOURS + 1)
    ]
    levels = []
    for k in range(1, NOISE_NEIGHBOURS + 2):
        values = [b - a for a, b in itertools.pairwise(values)]
        weight = math.factorial(k) ** 2 / math.factorial(2 * k)
        # Squares of very large or small numbers leave the range of floats; a hypotenuse does not.
        levels.append(math.hypot(*values) * math.sqrt(weight / len(values)))
    # Smooth parts vanish from high differences, noise stays at its level.
    pairs = [max(a, b) for a, b in itertools.pairwise(levels)]
    found = min(pairs)
    return MAX_NOISE_RATIO * found if math.isfinite(found) else 0.0


def _noise_of_witnesses(sweep: list[tuple[float, float]]) -> float:
    """The noise of values, from slopes at tiny steps, which should agree."""
    apart = [abs(slope - above) * step for (_, above), (step, slope) in itertools.pairwise(sweep)]
    return 3 * max((a for a in apart if math.isfinite(a)), default=0.0)


def _height_of_stairs(middle: float, values: list[tuple[float, float]]) -> float:
    """The step height of a rounded function; 0 if it is not rounded."""
    found = 0.0
    for side in (0, 1):
        changes = [abs(pair[side] - middle) for pair in values]
        if not changes[-1]:
            found = max(found, min((c for c in changes if 0 < c < math.inf), default=0.0))
    return found
