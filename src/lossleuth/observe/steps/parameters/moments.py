"""What an optimizer remembers of each parameter, whatever names it keeps it under."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import is_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lossleuth.native.handles import Handles
from lossleuth.observe.steps.clipping import plain_number

FIRST = ("exp_avg", "momentum_buffer")
SECOND = ("exp_avg_sq", "square_avg", "sum")

Entry = dict[str, Any] | None
_NUMBERS = (int, float)


class Moments(NamedTuple):
    """First and second moments, ages in updates, and epsilon in units of the second's root."""

    first: list[Tensor | None]
    second: list[Tensor | None]
    ages: list[float]
    thresholds: list[float]


def moments_of(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[Tensor],
    torch_tells: Handles | None = None,
) -> Moments:
    """The moments of all parameters of an optimizer, in the order of its groups.

    Reading one number of each is what costs most; `torch_tells` does it for all at once.

    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> weight.grad = torch.ones(2)
    >>> adam = torch.optim.Adam([weight], lr=0.1, betas=(0.9, 0.99))
    >>> adam.step()
    >>> found = moments_of(adam, [weight])
    >>> found.second[0], found.ages, round(found.thresholds[0], 12)
    (tensor([0.0100, 0.0100]), [1.0], 1e-09)
    """
    entries = _entries(optimizer.state, parameters)
    ages = _ages(entries, torch_tells)
    return Moments(
        _tensors(entries, FIRST), _tensors(entries, SECOND), ages, _thresholds(optimizer, ages)
    )


def _entries(state: dict[Tensor, dict[str, Any]], parameters: Sequence[Tensor]) -> list[Entry]:
    """What is kept of each parameter; a tensor's hash, which looking up needs, is slow."""
    if len(state) == len(parameters) and all(map(is_, state, parameters)):
        return list(state.values())
    return list(map(state.get, parameters))


def _ages(entries: list[Entry], torch_tells: Handles | None) -> list[float]:
    """The number in each entry's `step`, NaN where there is none."""
    steps = [entry.get("step") if entry else None for entry in entries]
    numbers = None if torch_tells is None else torch_tells.numbers(steps)
    if numbers is None:
        return [math.nan if step is None else plain_number(step) for step in steps]
    return numbers


def _tensors(entries: list[Entry], names: tuple[str, ...]) -> list[Tensor | None]:
    """The tensor of each entry under the first of these names that it has."""
    return [_first_of(entry, names) if entry else None for entry in entries]


def _first_of(entry: dict[str, Any], names: tuple[str, ...]) -> Tensor | None:
    candidates = (entry.get(name) for name in names)
    return next((value for value in candidates if isinstance(value, Tensor)), None)


def _thresholds(optimizer: torch.optim.Optimizer, ages: Sequence[float]) -> list[float]:
    found: list[float] = []
    for group in optimizer.param_groups:
        epsilon, betas = group.get("eps"), group.get("betas")
        # Some optimizers have two of them, with a meaning of their own.
        epsilon = float(epsilon) if isinstance(epsilon, _NUMBERS) else math.nan
        following = ages[len(found) : len(found) + len(group["params"])]
        # Nearly always all are of one age.
        at_age = {age: epsilon * _correction(betas, age) for age in set(following)}
        found += map(at_age.__getitem__, following)
    return found


def _correction(betas: Any, age: float) -> float:
    """By how much an Adam of this age has corrected the second moment's root for its start."""
    return math.sqrt(1 - float(betas[1]) ** age) if betas is not None and age > 0 else 1.0
