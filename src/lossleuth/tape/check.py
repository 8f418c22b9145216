"""Check a gradient against the function it is said to be the gradient of.

One random direction through all inputs at once tells whether anything is wrong; a direction for
each input tells where. The truth along a direction is torch's forward-mode derivative in float64
where the function allows it and its values bear it out, which shares no code with its backward;
else differences of its values with a bound. A judgement is made only where the bound allows one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from lossleuth.tape.differences import derivative
from lossleuth.tape.problems import (
    Problem,
    Vector,
    array,
    given_problem,
    shifted,
    size,
    torch_problem,
)

# How many times its last digit a sum of products computed by two different ways may differ by.
DIGITS = 200.0
# A bound that is a larger share of the slope than this could hide a real fault.
COARSEST = 1e-2
# How far along a direction the function is looked at, as a share of the size of its inputs.
REACH = 0.1
FORWARD = "forward-mode derivative in float64"
VALUES = "differences of values"


class Outcome(Enum):
    """What a check has found."""

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
    sweep: tuple[tuple[float, float], ...] = ()

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
        if not whole.sweep:
            return f"no differences were needed: {whole.how}"
        lines = []
        for step, slope in whole.sweep:
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


def _check(problem: Problem, seed: int, *, locate: bool) -> GradientCheck:
    random = np.random.default_rng(seed)
    directions = tuple(
        np.asarray(random.standard_normal(np.shape(c)) * size(v))
        for c, v in zip(problem.claimed, problem.values, strict=True)
    )
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
    """The inputs along which the gradient does not pass, by halves: faults are few."""
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
    values = _by_values(name, problem, directions)
    forward = _forward(problem, directions)
    if forward is None or not _borne_out(forward, values):
        return values
    # Two exact ways that agree beat a bound; one that speaks against the gradient where the
    # values cannot tell may be as far from the function as they are.
    if forward.outcome is Outcome.PASS and _repeats(problem):
        return replace(forward, name=name, sweep=values.sweep)
    sharp = values.bound <= COARSEST * max(abs(values.true), abs(values.claimed))
    if forward.outcome is Outcome.FAIL and sharp and _repeats(problem):
        return replace(forward, name=name, sweep=values.sweep)
    return values


def _claimed(problem: Problem, directions: tuple[Vector, ...]) -> tuple[float, float]:
    """The slope that the claimed gradient gives, and what its last digits make of it."""
    products = [
        np.where(d == 0, 0.0, c * d) for c, d in zip(problem.claimed, directions, strict=True)
    ]
    claimed = sum(float(p.sum()) for p in products)
    spread = math.sqrt(sum(float((p * p).sum()) for p in products))
    return claimed, DIGITS * problem.epsilon * max(spread, abs(claimed))


def _forward(problem: Problem, directions: tuple[Vector, ...]) -> Along | None:
    if problem.forward is None:
        return None
    claimed, own = _claimed(problem, directions)
    true = problem.forward(directions)
    # The same in exact numbers, up to their last digits: what rounding does to it on the way.
    digits = (1 + 2.0**-50, 1 - 2.0**-49, 1 + 3 * 2.0**-51)
    shaken = [problem.forward(tuple(d * f for d in directions)) / f for f in digits]
    own += 8 * max(abs(s - true) for s in shaken)
    return _judged("some", claimed, true, own, FORWARD, ())


def _borne_out(forward: Along, values: Along) -> bool:
    """Whether the values agree: a function that leaves torch on the way has another slope."""
    return abs(forward.true - values.true) <= values.bound + forward.bound


def _repeats(problem: Problem) -> bool:
    return problem.at(problem.values) == problem.at(problem.values)


def _by_values(name: str, problem: Problem, directions: tuple[Vector, ...]) -> Along:
    known = [np.where(np.isfinite(c), c, 0.0) for c in problem.claimed]

    def places(step: float) -> tuple[Any, ...]:
        pairs = zip(problem.values, directions, strict=True)
        return tuple(shifted(v, step * d) for v, d in pairs)

    middle = problem.at(problem.values)
    sizes = [abs(middle), *(abs(problem.at(places(step))) for step in (-REACH / 4, REACH / 4))]
    largest = max((s for s in sizes if math.isfinite(s)), default=0.0)

    def moved(step: float) -> float:
        """The change that the claimed gradient does not explain; the inputs' rounding drops out."""
        there = places(step)
        pairs = zip(there, problem.values, known, strict=True)
        explained = sum(float((k * (array(p) - array(v))).sum()) for p, v, k in pairs)
        return (problem.at(there) - middle) - explained

    epsilon = problem.epsilon * 8
    found = derivative(moved, scale=REACH, epsilon=epsilon, noise=epsilon * largest)
    expected = sum(float((k * d).sum()) for k, d in zip(known, directions, strict=True))
    claimed, own = _claimed(problem, directions)
    sweep = tuple((step, slope + expected) for step, slope in found.sweep)
    bound = found.bound + (own if math.isfinite(own) else 0.0)
    return _judged(name, claimed, found.value + expected, bound, VALUES, sweep)


def _judged(
    name: str,
    claimed: float,
    true: float,
    bound: float,
    how: str,
    sweep: tuple[tuple[float, float], ...],
) -> Along:
    coarse = bound > COARSEST * max(abs(true), abs(claimed)) and bound > 0
    if not math.isfinite(true) or not math.isfinite(bound):
        outcome = Outcome.CANNOT_TELL
    elif not math.isfinite(claimed):
        # No number is the wrong gradient of a function that has a slope.
        outcome = Outcome.CANNOT_TELL if bound > COARSEST * abs(true) else Outcome.FAIL
    elif abs(claimed - true) > bound:
        outcome = Outcome.FAIL
    else:
        outcome = Outcome.CANNOT_TELL if coarse else Outcome.PASS
    return Along(name, outcome, claimed, true, bound, how, sweep)
