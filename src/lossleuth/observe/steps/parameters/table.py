"""The parameters that a run updates, and the readings of each around its update.

Rows belong to parameters, not to optimizers: a script that makes a new optimizer every step
still has the same rows.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.native.columns import COLUMNS
from lossleuth.native.handles import handles
from lossleuth.native.optimizer_pass import OptimizerPass
from lossleuth.observe.steps.parameters.known import KnownParameters
from lossleuth.observe.steps.parameters.moments import moments_of
from lossleuth.observe.steps.parameters.readings import (
    READINGS,
    Matrix,
    divisors,
    missing,
    readings,
)
from lossleuth.observe.steps.trainees import BY_HAND, Trainees
from lossleuth.tape.capture.graph_leaves import leaves_behind

MOST_GROUPS = 8
UPDATE_SQUARES = COLUMNS.index("update_squares")


class _Rows:
    """Where the readings of some parameters go, and what turns sums over them into readings."""

    def __init__(self, rows: NDArray[np.intp], sizes: Sequence[int]) -> None:
        self.rows = rows
        self.divisors = divisors(sizes)
        self._in_order = np.array_equal(rows, np.arange(len(rows)))

    def are_all(self, count: int) -> bool:
        """Whether these are all rows that there are, in order."""
        return self._in_order and len(self.rows) == count


@dataclass
class _Group:
    """Parameters that are updated together, and the pass that measures them."""

    parameters: list[Tensor]
    measured: OptimizerPass
    rows: _Rows


# What a pass found: sums over the elements of each parameter, and their ages in updates. A plain
# tuple, since one with names takes 3 us where it is made.
Measured = tuple[_Rows, bytes, bytes]


class ParameterTable:
    """Measures every update, by an optimizer or by hand, and keeps what it found until taken."""

    def __init__(self) -> None:
        self.parameters = KnownParameters()
        # How many optimizers have ever made an update.
        self.optimizers_seen = 0
        # Optimizers that have made an update and are still there, by their identity.
        self.known: dict[int, weakref.ref[torch.optim.Optimizer]] = {}
        # Those whose steps are compiled with the program.
        self.unseen: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self.trainees = Trainees()
        self._groups: dict[tuple[int, ...], _Group] = {}
        self._latest: _Group | None = None
        self._measured: list[Measured] = []
        self._torch = handles()
        self._by_hand: _Group | None = None
        self._hand_pending = False
        self._backwards = 0

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Optimizers that have made an update and are still there."""
        found = [reference() for reference in list(self.known.values())]
        return [optimizer for optimizer in found if optimizer is not None]

    # updates by an optimizer

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Measure the gradients that an optimizer is about to use."""
        latest = self._latest
        if latest and latest.measured.before_step(latest.parameters, optimizer.param_groups):
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        group = self._group(parameters)
        group.measured.before_update(parameters, [p.grad for p in parameters])

    def after_update(self, optimizer: torch.optim.Optimizer) -> int:
        """Measure what the optimizer made of them; the number of what is trained."""
        if id(optimizer) not in self.known:
            self._remember(optimizer)
        # What has moved was moved by the optimizer.
        self._hand_pending = False
        latest = self._latest
        found = latest and latest.measured.after_step(optimizer.param_groups, optimizer.state)
        if latest and found:
            self._measured.append((latest.rows, *found))
            return self.trainees.of(optimizer, latest.rows)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        group = self._group(parameters)
        first, second, ages, thresholds = moments_of(optimizer, parameters, self._torch)
        group.measured.after_update(first, second, thresholds)
        self._add(group, ages)
        return self.trainees.of(optimizer, group.rows)

    def _remember(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizers_seen += 1
        key, optimizers = id(optimizer), self.known
        optimizers[key] = weakref.ref(optimizer, lambda _: optimizers.pop(key, None))

    # updates by hand

    def number_by_hand(self) -> int | None:
        """The number of what is trained without an optimizer that is seen to step."""
        return None if self._by_hand is None else self.trainees.of(None, self._by_hand.rows)

    def note_roots(self, roots: Sequence[Any]) -> None:
        """Find what a backward pass reaches, where no optimizer says what is trained."""
        if self.known:
            return
        self._backwards += 1
        # Looking again at powers of two finds parameters that join later, at no lasting cost.
        if self._by_hand is None or self._backwards & (self._backwards - 1) == 0:
            # The walk goes from the loss down; readers want the order of the forward pass.
            leaves = leaves_behind(roots)[::-1]
            if leaves:
                self._by_hand = self._group(leaves)

    def follow(self, optimizer: torch.optim.Optimizer) -> None:
        """Look for the updates of an optimizer whose steps are not seen, from the next one on."""
        if optimizer in self.unseen:
            # The present update may be half made by now.
            return
        self.unseen.add(optimizer)
        groups = [group for one in self.unseen for group in one.param_groups]
        self._by_hand = self._group([p for group in groups for p in group["params"]])
        self.before_hand_update()

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
        sums = group.measured.after_update(nothing, nothing, [math.nan] * len(nothing))
        moved = sums[:, UPDATE_SQUARES]
        if not np.nansum(moved > 0) and not np.isnan(moved).all():
            return []
        self._add(group, [math.nan] * len(nothing))
        return [BY_HAND]

    def _add(self, group: _Group, ages: list[float]) -> None:
        self._measured.append((group.rows, group.measured.results(), np.array(ages).tobytes()))

    # rows

    def take_measured(self) -> list[Measured]:
        """What was measured since the last time."""
        taken, self._measured = self._measured, []
        return taken

    def matrices_of(self, steps: Sequence[list[Measured]], count: int) -> list[Matrix]:
        """Readings of each step, of the first `count` parameters; NaN of one that was not updated.

        Those are all that were known when the steps ended, though there may be more by now.
        """
        measured = [one for step in steps for one in step if one[1]]
        shape = len(steps), count, len(READINGS)
        if not measured:
            return list(missing(len(steps) * count).reshape(shape))
        rows, all_sums, all_ages = zip(*measured, strict=True)
        sums = np.frombuffer(b"".join(all_sums)).reshape(-1, len(COLUMNS))
        ages = np.frombuffer(b"".join(all_ages))
        # Nearly always each step updates everything once.
        if all(some is rows[0] for some in rows):
            found = readings(sums, rows[0].divisors, ages)
        else:
            found = readings(sums, np.concatenate([some.divisors for some in rows]), ages)
        if not all(len(step) == 1 and step[0][0].are_all(count) for step in steps):
            places = [i * count + some.rows for i, step in enumerate(steps) for some, *_ in step]
            matrix = missing(len(steps) * count)
            matrix[np.concatenate(places)] = found
            found = matrix
        return list(found.reshape(shape))

    def _group(self, parameters: list[Tensor]) -> _Group:
        latest = self._latest
        if latest is not None and _are_same(latest.parameters, parameters):
            return latest
        key = tuple(map(id, parameters))
        group = self._groups.get(key)
        if group is None or not _are_same(group.parameters, parameters):
            sizes = [parameter.numel() for parameter in parameters]
            rows = _Rows(self.parameters.rows_of(parameters), sizes)
            group = _Group(list(parameters), OptimizerPass(parameters), rows)
        self._latest = self._groups[key] = group
        # A script may make model after model; only the latest are kept alive by us.
        while len(self._groups) > MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        return group


def _are_same(some: list[Tensor], others: list[Tensor]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))
