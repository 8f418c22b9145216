"""The parameters that a run updates, and the readings of each around its update.

Rows belong to parameters, not to optimizers: a script that makes a new optimizer every step
still has the same rows.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lossleuth.kernels.statistics import ParameterPass
from lossleuth.observe.clipping import plain_number
from lossleuth.observe.leaves import leaves_behind
from lossleuth.observe.names import parameter_names
from lossleuth.observe.statistics import READINGS, Matrix, missing, readings

FIRST_MOMENTS = ("exp_avg", "momentum_buffer")
SECOND_MOMENTS = ("exp_avg_sq", "square_avg", "sum")
BY_HAND = "by hand"
MOST_GROUPS = 8
UPDATE_RMS = READINGS.index("update_rms")


@dataclass
class _Group:
    """Parameters that are updated together, and the pass that measures them."""

    parameters: list[Tensor]
    measured: ParameterPass
    rows: list[int]


class ParameterTable:
    """Knows every parameter that was updated so far, in the order of first sight."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.version = 0
        self._rows: dict[int, tuple[int, weakref.ref[Tensor]]] = {}
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._groups: dict[tuple[int, ...], _Group] = {}
        self._matrix: Matrix = missing(0)
        self._by_hand: _Group | None = None
        self._hand_pending = False
        self._backwards = 0

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Optimizers that have made an update and are still there."""
        return list(self._optimizers)

    # updates by an optimizer

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Measure the gradients that an optimizer is about to use."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        group = self._group(parameters)
        group.measured.before_update(parameters, [p.grad for p in parameters])

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Measure what the optimizer made of them."""
        self._optimizers.add(optimizer)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        group = self._group(parameters)
        state = [optimizer.state.get(p) or {} for p in parameters]
        ages = [_age(entry) for entry in state]
        measured = group.measured.after_update(
            [_first_of(entry, FIRST_MOMENTS) for entry in state],
            [_first_of(entry, SECOND_MOMENTS) for entry in state],
            _thresholds(optimizer, ages),
        )
        self._matrix[group.rows] = readings(measured, self._sizes_of(group.rows), ages)

    # updates by hand

    def note_roots(self, roots: Sequence[Any]) -> None:
        """Find what a backward pass reaches, where no optimizer says what is trained."""
        if self._optimizers:
            return
        self._backwards += 1
        # Looking again at powers of two finds parameters that join later, at no lasting cost.
        if self._by_hand is None or self._backwards & (self._backwards - 1) == 0:
            # The walk goes from the loss down; readers want the order of the forward pass.
            leaves = leaves_behind(roots)[::-1]
            if leaves:
                self._by_hand = self._group(leaves)

    def before_hand_update(self) -> None:
        """Keep the parameters as they are after a backward pass."""
        if self._by_hand is not None:
            parameters = self._by_hand.parameters
            self._by_hand.measured.before_update(parameters, [p.grad for p in parameters])
            self._hand_pending = True

    def hand_updates(self) -> list[str]:
        """Whether parameters have moved since, with no optimizer at work."""
        if not self._hand_pending or self._by_hand is None:
            return []
        group = self._by_hand
        self._hand_pending = False
        nothing: list[None] = [None] * len(group.parameters)
        measured = group.measured.after_update(nothing, nothing, [math.nan] * len(nothing))
        rows = readings(measured, self._sizes_of(group.rows), [math.nan] * len(nothing))
        if not np.nansum(rows[:, UPDATE_RMS] > 0) and not np.isnan(rows[:, UPDATE_RMS]).all():
            return []
        self._matrix[group.rows] = rows
        return [BY_HAND]

    # rows

    def take_readings(self) -> Matrix:
        """The readings of this step, a row for each parameter; NaN for those not updated."""
        taken = self._matrix
        self._matrix = missing(len(self.names))
        return taken

    def _sizes_of(self, rows: list[int]) -> list[int]:
        return [self.sizes[row] for row in rows]

    def _group(self, parameters: list[Tensor]) -> _Group:
        key = tuple(map(id, parameters))
        group = self._groups.get(key)
        if group is not None and all(
            a is b for a, b in zip(group.parameters, parameters, strict=True)
        ):
            return group
        group = _Group(list(parameters), ParameterPass(parameters), self._rows_of(parameters))
        self._groups[key] = group
        # A script may make model after model; only the latest are kept alive by us.
        while len(self._groups) > MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        return group

    def _rows_of(self, parameters: list[Tensor]) -> list[int]:
        """The row of each parameter; new ones are named and declared."""
        new = [p for p in parameters if not self._is_known(p)]
        if new:
            for name, parameter in zip(parameter_names(new), new, strict=True):
                self._rows[id(parameter)] = (len(self.names), weakref.ref(parameter))
                self.names.append(_unused(name, self.names))
                self.sizes.append(parameter.numel())
            self.version += 1
            grown = missing(len(self.names))
            grown[: len(self._matrix)] = self._matrix
            self._matrix = grown
        return [self._rows[id(p)][0] for p in parameters]

    def _is_known(self, parameter: Tensor) -> bool:
        known = self._rows.get(id(parameter))
        return known is not None and known[1]() is parameter


def _unused(name: str, names: list[str]) -> str:
    if name not in names:
        return name
    number = 2
    while f"{name} #{number}" in names:
        number += 1
    return f"{name} #{number}"


def _first_of(entry: dict[str, Any], keys: tuple[str, ...]) -> Tensor | None:
    for key in keys:
        value = entry.get(key)
        if isinstance(value, Tensor):
            return value
    return None


def _age(entry: dict[str, Any]) -> float:
    """How many updates an optimizer's state remembers."""
    step = entry.get("step")
    if isinstance(step, Tensor):
        return plain_number(step)
    return math.nan if step is None else float(step)


def _thresholds(optimizer: torch.optim.Optimizer, ages: Sequence[float]) -> list[float]:
    """Epsilon in units of the uncorrected second moment's root, for each parameter."""
    found: list[float] = []
    for group in optimizer.param_groups:
        epsilon = float(group.get("eps", math.nan))
        betas = group.get("betas")
        for _ in group["params"]:
            age = ages[len(found)]
            correction = 1.0
            if betas is not None and age > 0:
                correction = math.sqrt(1 - float(betas[1]) ** age)
            found.append(epsilon * correction)
    return found
