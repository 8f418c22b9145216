"""Check a gradient against the function it is said to be the gradient of.

One random direction through all inputs at once tells whether anything is wrong; a direction for
each input tells where. The truth along a direction is torch's forward-mode derivative in float64
where the function allows it, which shares no code with its backward; else differences of its
values with a bound. A judgement is made only where the bound allows one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from lossleuth.tape.differences import Derivative, derivative
from lossleuth.tape.problems import Problem, Vector, given_problem, shifted, size, torch_problem

# How many times its last digit a sum of products computed by two different ways may differ by.
DIGITS = 200.0
# A bound that is a larger share of the slope than this could hide a real fault.
COARSEST = 1e-2


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
            bar = width if not gap else max(0, min(width, int(width + 2.5 * math.log10(gap))))
            lines.append(f"step {step:8.1e}  error {gap:8.1e}  {'#' * (bar if gap else 0)}")
        return "\n".join(lines)


def check_gradient(
    function: Callable[..., Any] | None = None,
    inputs: Sequence[Any] | None = None,
    *,
    loss: Callable[..., Any] | None = None,
    gradient: Any = None,
    parameters: Sequence[Any] | Mapping[str, Any] | None = None,
    seed: int = 0,
) -> GradientCheck:
    """Whether a gradient is right: pass, fail or cannot tell.

    With `function` and `inputs`, torch's backward through the function is checked. With `loss`,
    `gradient` and `parameters`, any gradient is: a list of arrays, or a function that gives it;
    parameters may be torch tensors or numpy arrays, and `loss` takes them in order.

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
        return _check(torch_problem(function, list(inputs), seed), seed)
    if loss is None or gradient is None or parameters is None:
        raise TypeError("expected loss, gradient and parameters together")
    return _check(given_problem(loss, gradient, parameters), seed)


def _check(problem: Problem, seed: int) -> GradientCheck:
    random = np.random.default_rng(seed)
    directions = tuple(
        random.standard_normal(np.shape(c)) * size(v)
        for c, v in zip(problem.claimed, problem.values, strict=True)
    )
    whole = _along("everything", problem, directions)
    if whole.outcome is Outcome.PASS or len(directions) == 1:
        part = (_renamed(whole, problem.names[0]),) if len(directions) == 1 else ()
        return GradientCheck(whole.outcome, whole, part)
    parts = _located(problem, directions, range(len(directions)))
    outcome = whole.outcome
    if any(part.outcome is Outcome.FAIL for part in parts):
        outcome = Outcome.FAIL
    return GradientCheck(outcome, whole, tuple(parts))


def _located(problem: Problem, directions: tuple[Vector, ...], among: range) -> list[Along]:
    """The inputs along which the gradient does not pass, by halves: faults are few."""
    if len(among) == 1:
        alone = _only(directions, among)
        return [_along(problem.names[among[0]], problem, alone)]
    found = []
    for half in (among[: len(among) // 2], among[len(among) // 2 :]):
        if _along("some", problem, _only(directions, half)).outcome is not Outcome.PASS:
            found += _located(problem, directions, half)
    return found


def _only(directions: tuple[Vector, ...], among: range) -> tuple[Vector, ...]:
    return tuple(d if i in among else np.zeros_like(d) for i, d in enumerate(directions))


def _along(name: str, problem: Problem, directions: tuple[Vector, ...]) -> Along:
    products = [c * d for c, d in zip(problem.claimed, directions, strict=True)]
    claimed = math.fsum(float(p.sum()) for p in products)
    spread = math.sqrt(math.fsum(float((p * p).sum()) for p in products))
    own = DIGITS * problem.epsilon * max(spread, abs(claimed))
    if problem.forward is not None:
        how = "forward-mode derivative in float64"
        found = _judged(name, claimed, problem.forward(directions), own, how, ())
        # A function that leaves torch on the way has a forward-mode derivative that is not its
        # own; before it is believed against the gradient, the values themselves must bear it out.
        if found.outcome is Outcome.PASS or _borne_out(found, _differences(problem, directions)):
            return found
    values = _differences(problem, directions)
    how = "differences of values"
    return _judged(name, claimed, values.value, values.bound + own, how, values.sweep)


def _borne_out(found: Along, values: Derivative) -> bool:
    return abs(found.true - values.value) <= values.bound + found.bound


def _differences(problem: Problem, directions: tuple[Vector, ...]) -> Derivative:
    def moved(step: float) -> float:
        return problem.at(
            tuple(shifted(v, step * d) for v, d in zip(problem.values, directions, strict=True))
        )

    return derivative(moved, scale=0.1, epsilon=problem.epsilon * 8)


def _judged(
    name: str,
    claimed: float,
    true: float,
    bound: float,
    how: str,
    sweep: tuple[tuple[float, float], ...],
) -> Along:
    gap = abs(claimed - true)
    if not math.isfinite(gap) or not math.isfinite(bound):
        outcome = Outcome.CANNOT_TELL
    elif gap > bound:
        outcome = Outcome.FAIL
    elif bound > COARSEST * max(abs(true), abs(claimed)) and bound > 0:
        outcome = Outcome.CANNOT_TELL
    else:
        outcome = Outcome.PASS
    return Along(name, outcome, claimed, true, bound, how, sweep)


def _renamed(along: Along, name: str) -> Along:
    rest = (along.outcome, along.claimed, along.true, along.bound, along.how, along.sweep)
    return Along(name, *rest)
