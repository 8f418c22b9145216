"""Check a gradient against the function it is said to be the gradient of.

One random direction through all inputs at once tells whether anything is wrong; a direction for
each input tells where. The truth along a direction is torch's forward-mode derivative in float64
where the function allows it and its values bear it out, which shares no code with its backward;
else differences of its values with a bound. A judgement is made only where the bound allows one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from lossleuth.gradcheck.differences import (
    STEPS_TO_COMPARE,
    STEPS_TO_CONFIRM,
    STEPS_TO_MEASURE,
    Derivative,
    derivative,
)
from lossleuth.gradcheck.problems import (
    Problem,
    Vector,
    array,
    dot,
    given_problem,
    shifted,
    size,
    torch_problem,
)

# Units of the last digit by which two ways to compute a sum of products may differ. Picked by hand.
MAX_ULPS = 200.0
# An error bound that is a larger share of the slope than this could hide a real fault. Picked by
# hand.
MAX_BOUND_SHARE = 1e-2
# The largest step along a direction, as a share of the size of the inputs. Picked by hand.
MAX_STEP_SHARE = 0.1
FORWARD = "forward-mode derivative in float64"
VALUES = "differences of values"

Sweep = Callable[[], tuple[tuple[float, float], ...]]


class Outcome(Enum):
    """The result of a check."""

    PASS = "pass"
    FAIL = "fail"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Along:
    """Slopes along one direction: that of the claimed gradient, and the true one with its bound."""

    name: str
    outcome: Outcome
    claimed: float
    true: float
    bound: float
    how: str
    # Step and central difference, computed on demand.
    sweep: Sweep | None = field(default=None, repr=False, compare=False)

    @property
    def error(self) -> float:
        """The difference, as a share of the true slope."""
        gap = abs(self.claimed - self.true)
        return gap / abs(self.true) if self.true else gap


@dataclass(frozen=True)
class GradientCheck:
    """Result of a check; `parts` say where a failure lies."""

    outcome: Outcome
    whole: Along
    parts: tuple[Along, ...] = ()

    def __bool__(self) -> bool:
        return self.outcome is Outcome.PASS

    @property
    def wrong(self) -> tuple[str, ...]:
        """Names of the inputs whose gradient is wrong."""
        return tuple(part.name for part in self.parts if part.outcome is Outcome.FAIL)

    def picture(self, width: int = 40) -> str:
        """The error of plain central differences over their step, as text: a V if all is well."""
        whole = self.whole
        lines = []
        for step, slope in whole.sweep() if whole.sweep is not None else ():
            gap = abs(slope - whole.claimed) / (abs(whole.claimed) or 1.0)
            # Nothing for an error of 1e-16, all for one of 1 or more, or of no number.
            share = 1 + math.log10(gap) / 16 if 0 < gap < 1 else float(gap != 0)
            bar = "#" * max(0, round(width * share))
            lines.append(f"step {step:8.1e}  error {gap:8.1e}  {bar}".rstrip())
        return "\n".join(lines)


def check_gradient(
    function: Callable[..., Any] | None = None,
    inputs: Sequence[Any] | None = None,
    *,
    loss: Callable[..., Any] | None = None,
    gradient: Any = None,
    parameters: Sequence[Any] | Mapping[str, Any] | None = None,
    seed: int = 0,
    locate: bool = True,
) -> GradientCheck:
    """Whether a gradient is right: pass, fail or cannot tell.

    With `function` and `inputs`, torch's backward through the function is checked. With `loss`,
    `gradient` and `parameters`, any gradient is: a list of arrays, or a function that gives it;
    parameters may be torch tensors or numpy arrays, and `loss` takes them in order. Without
    `locate`, a failure is not traced to its input, which takes several times as long as finding it.

    >>> import torch
    >>> bool(check_gradient(lambda x: (x ** 3).sum(), [torch.tensor([1.0, 2.0])]))
    True
    >>> wrong = check_gradient(
    ...     loss=lambda w: float((w**2).sum()),
    ...     gradient=lambda w: [2.01 * w],
    ...     parameters=[np.array([1.0, -3.0])],
    ... )
    >>> wrong.outcome.value
    'fail'
    """
    if (function is None) == (loss is None):
        raise TypeError("expected function and inputs, or loss, gradient and parameters")
    if function is not None:
        if inputs is None:
            raise TypeError("expected inputs beside function, found none: pass a list of tensors")
        return _check(torch_problem(function, list(inputs), seed), seed, locate=locate)
    if loss is None or gradient is None or parameters is None:
        raise TypeError("expected loss, gradient and parameters together")
    return _check(given_problem(loss, gradient, parameters), seed, locate=locate)


def check_along(
    problem: Problem, directions: Iterable[tuple[str, tuple[Vector, ...]]]
) -> Iterator[Along]:
    """The claimed gradient along each of these directions, by differences of values alone.

    Each is worked out when it is asked for: 7 values where they confirm the gradient, else 60 more.
    """
    for name, direction in directions:
        few = _by_values(name, problem, direction, STEPS_TO_COMPARE)
        yield few if few.outcome is Outcome.PASS else _by_values(name, problem, direction)


def _check(problem: Problem, seed: int, *, locate: bool) -> GradientCheck:
    random = np.random.default_rng(seed)
    directions = tuple(
        # Evenly spread is several times as fast to draw as normal, and no more often at right
        # angles to an error.
        np.asarray(random.uniform(-1.0, 1.0, np.shape(c)) * (math.sqrt(3) * size(v)))
        for c, v in zip(problem.claimed, problem.values, strict=True)
    )
    whole = _along("everything", problem, directions)
    if whole.outcome is Outcome.CANNOT_TELL:
        # A direction nearly at right angles to the gradient says nothing: take the gradient's own.
        pairs = zip(problem.claimed, directions, strict=True)
        directions = tuple(np.where(c == 0, d, np.copysign(d, c)) for c, d in pairs)
        whole = _along("everything", problem, directions)
    if whole.outcome is Outcome.PASS or len(directions) == 1 or not locate:
        part = (replace(whole, name=problem.names[0]),) if len(directions) == 1 else ()
        return GradientCheck(whole.outcome, whole, part)
    trusted = whole.how == FORWARD
    parts = _located(problem, directions, range(len(directions)), trusted=trusted)
    outcome = whole.outcome
    if any(part.outcome is Outcome.FAIL for part in parts):
        outcome = Outcome.FAIL
    return GradientCheck(outcome, whole, tuple(parts))


def _located(
    problem: Problem, directions: tuple[Vector, ...], among: range, *, trusted: bool
) -> list[Along]:
    """Bisect for the inputs whose gradient fails: faults are few."""
    if len(among) == 1:
        alone = _only(directions, among)
        return [_along(problem.names[among[0]], problem, alone)]
    found = []
    for half in (among[: len(among) // 2], among[len(among) // 2 :]):
        some = _only(directions, half)
        slope = _forward(problem, some) if trusted else _by_values("some", problem, some)
        if slope is None or slope.outcome is not Outcome.PASS:
            found += _located(problem, directions, half, trusted=trusted)
    return found


def _only(directions: tuple[Vector, ...], among: range) -> tuple[Vector, ...]:
    return tuple(d if i in among else np.zeros_like(d) for i, d in enumerate(directions))


def _along(name: str, problem: Problem, directions: tuple[Vector, ...]) -> Along:
    forward = _forward(problem, directions)
    few = STEPS_TO_MEASURE if forward is None else STEPS_TO_CONFIRM
    quick = _confirmed(problem, forward, _by_values(name, problem, directions, few))
    if quick is not None:
        return replace(quick, name=name)
    values = _by_values(name, problem, directions)
    if forward is None or not _borne_out(forward, values):
        return values
    # Two exact ways that agree beat a bound; one that speaks against the gradient where the
    # values cannot tell may be as far from the function as they are.
    if forward.outcome is Outcome.PASS and _repeats(problem):
        return replace(forward, name=name, sweep=values.sweep)
    if forward.outcome is Outcome.FAIL and _is_sharp(values, MAX_BOUND_SHARE) and _repeats(problem):
        return replace(forward, name=name, sweep=values.sweep)
    return values


def _confirmed(problem: Problem, forward: Along | None, values: Along) -> Along | None:
    """Try to confirm a gradient with few values; few values never reject one."""
    if forward is not None:
        agree = _borne_out(forward, values) and _is_sharp(values, MAX_BOUND_SHARE)
        right = forward.outcome is Outcome.PASS and agree
        found = replace(forward, sweep=values.sweep)
    else:
        # As sharp as differences of rounded values usually are.
        found, right = values, _is_sharp(values, math.sqrt(problem.epsilon))
        right = right and values.outcome is Outcome.PASS
    return found if right and _repeats(problem) else None


def _is_sharp(values: Along, share: float) -> bool:
    return values.bound <= share * max(abs(values.true), abs(values.claimed))


def _claimed(problem: Problem, directions: tuple[Vector, ...]) -> tuple[float, float]:
    """The slope that the claimed gradient gives, and its rounding error."""
    claimed = squares = 0.0
    for known, direction in zip(problem.claimed, directions, strict=True):
        # Along nothing, even no number counts for nothing.
        if direction.any():
            products = known * direction
            claimed, squares = claimed + float(products.sum()), squares + dot(products, products)
    return claimed, MAX_ULPS * problem.epsilon * max(math.sqrt(squares), abs(claimed))


def _forward(problem: Problem, directions: tuple[Vector, ...]) -> Along | None:
    true = problem.forward(directions)
    if true is None:
        return None
    claimed, own = _claimed(problem, directions)
    if not abs(claimed - true) <= own:
        # The same in exact numbers, up to their last digits: what rounding does to it on the way.
        digits = (1 + 2.0**-50, 1 - 2.0**-49, 1 + 3 * 2.0**-51)
        shaken = [problem.forward(tuple(d * f for d in directions)) for f in digits]
        pairs = zip(shaken, digits, strict=True)
        own += 8 * max(abs(s / f - true) for s, f in pairs if s is not None)
    return _judged("some", claimed, true, own, FORWARD)


def _borne_out(forward: Along, values: Along) -> bool:
    """Whether values agree with torch's slope; not if the function leaves torch on the way."""
    return abs(forward.true - values.true) <= values.bound + forward.bound


def _repeats(problem: Problem) -> bool:
    return problem.at(problem.values) == problem.at(problem.values)


def _by_values(
    name: str, problem: Problem, directions: tuple[Vector, ...], some: slice | None = None
) -> Along:
    known = [
        c if np.isfinite(c).all() else np.where(np.isfinite(c), c, 0.0) for c in problem.claimed
    ]
    expected = sum(dot(k, d) for k, d in zip(known, directions, strict=True))
    middle = problem.at(problem.values)

    @cache
    def value_and_explained(step: float) -> tuple[float, float]:
        """The value, and the change up to there that the claimed gradient explains."""
        there = tuple(shifted(v, d, step) for v, d in zip(problem.values, directions, strict=True))
        # From where the inputs are, not from where they should be: their rounding drops out.
        moves = (array(p) - array(v) for p, v in zip(there, problem.values, strict=True))
        return problem.at(there), sum(dot(k, m) for k, m in zip(known, moves, strict=True))

    def moved(step: float) -> float:
        """The change that the claimed gradient does not explain."""
        value, explained = value_and_explained(step) if step else (middle, 0.0)
        return (value - middle) - explained

    def differences(some: slice | None) -> Derivative:
        ends = (-MAX_STEP_SHARE / 4, MAX_STEP_SHARE / 4) if some is None else ()
        sizes = [abs(middle), *(abs(value_and_explained(step)[0]) for step in ends)]
        largest = max((s for s in sizes if math.isfinite(s)), default=0.0)
        epsilon = problem.epsilon * 8
        noise = epsilon * largest + problem.noise
        return derivative(moved, scale=MAX_STEP_SHARE, epsilon=epsilon, noise=noise, some=some)

    found = differences(some)

    def sweep() -> tuple[tuple[float, float], ...]:
        whole = found if some is None else differences(None)
        return tuple((step, slope + expected) for step, slope in whole.sweep)

    claimed, own = _claimed(problem, directions)
    # On either side of a kink, forward and backward mode take the same way.
    bound = found.smooth_bound if some == STEPS_TO_CONFIRM else found.bound
    bound += own if math.isfinite(own) else 0.0
    return _judged(name, claimed, found.value + expected, bound, VALUES, sweep)


def _judged(
    name: str,
    claimed: float,
    true: float,
    bound: float,
    how: str,
    sweep: Sweep | None = None,
) -> Along:
    coarse = bound > MAX_BOUND_SHARE * max(abs(true), abs(claimed)) and bound > 0
    if not math.isfinite(true) or not math.isfinite(bound):
        outcome = Outcome.CANNOT_TELL
    elif not math.isfinite(claimed):
        # No number is the wrong gradient of a function that has a slope.
        outcome = Outcome.CANNOT_TELL if bound > MAX_BOUND_SHARE * abs(true) else Outcome.FAIL
    elif abs(claimed - true) > bound:
        outcome = Outcome.FAIL
    else:
        outcome = Outcome.CANNOT_TELL if coarse else Outcome.PASS
    return Along(
        name=name, outcome=outcome, claimed=claimed, true=true, bound=bound, how=how, sweep=sweep
    )
