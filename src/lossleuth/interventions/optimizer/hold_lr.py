"""The schedule frozen: the rate never falls below the highest it has had."""

from __future__ import annotations

from typing import Any

import torch

from lossleuth.interventions.intervention import Intervention


class HoldLr(Intervention):
    """Hold the highest rate that each group has had."""

    def __init__(self) -> None:
        self._highest: dict[tuple[int, int], float] = {}
        self._own: list[Any] = []

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Put the highest rate in."""
        self._own = [group.get("lr") for group in optimizer.param_groups]
        for index, group in enumerate(optimizer.param_groups):
            if "lr" not in group:
                continue
            key = (id(optimizer), index)
            rates = (float(group["lr"]), float(group.get("initial_lr", 0.0)))
            highest = max(self._highest.get(key, 0.0), rates[0])
            # A schedule may have lowered the rate before its first step.
            self._highest[key] = highest if highest else rates[1]
            group["lr"] = self._highest[key]

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Give the schedule its own rate back."""
        for group, rate in zip(optimizer.param_groups, self._own, strict=True):
            if rate is not None:
                group["lr"] = rate
