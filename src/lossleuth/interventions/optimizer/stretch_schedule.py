"""The schedule stretched: each rate is used for `factor` updates where the program has it for one.

Whatever schedule it is: the rate of update n is the one that the program had at update n // factor.
A rate that the program keeps outside its optimizer, as it does in an update by hand, is not
reached; nor is what else may be scheduled, such as a momentum.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention

# The rates that each group has had, update by update.
_Rates = dict[int, list[Any]]


class StretchSchedule(Intervention):
    """Use the rates of the past, more slowly than they came."""

    def __init__(self, factor: float) -> None:
        if factor < 1:
            raise ValueError(f"expected a factor of 1 or more (past rates only), found {factor}")
        self._factor = factor
        self._past: WeakKeyDictionary[torch.optim.Optimizer, _Rates] = WeakKeyDictionary()
        self._own: list[Any] = []

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Remember the program's own rate and put an earlier one in."""
        past = self._past.setdefault(optimizer, {})
        self._own = [group.get("lr") for group in optimizer.param_groups]
        for index, (group, rate) in enumerate(zip(optimizer.param_groups, self._own, strict=True)):
            if rate is None:
                continue
            rates = past.setdefault(index, [])
            # A schedule writes to a rate that is a tensor.
            rates.append(rate.clone() if isinstance(rate, Tensor) else rate)
            group["lr"] = rates[int((len(rates) - 1) // self._factor)]

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Give the schedule its own rate back."""
        for group, rate in zip(optimizer.param_groups, self._own, strict=False):
            if rate is not None:
                group["lr"] = rate
        self._own = []
