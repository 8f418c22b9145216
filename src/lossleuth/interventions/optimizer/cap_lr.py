"""A learning rate that never exceeds a value.

The value is that of the first group; others keep their ratio to it.
"""

from __future__ import annotations

from typing import Any

import torch

from lossleuth.interventions.intervention import Intervention


class CapLr(Intervention):
    """Lower the rates of all groups where the first one is above the cap."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._own: list[Any] = []

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Put the lower rates in."""
        self._own = [group.get("lr") for group in optimizer.param_groups]
        first = float(self._own[0]) if self._own and self._own[0] is not None else 0.0
        if first <= self._rate:
            return
        for group, own in zip(optimizer.param_groups, self._own, strict=True):
            if own is not None:
                group["lr"] = own * (self._rate / first)

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Give the program its own rates back."""
        for group, own in zip(optimizer.param_groups, self._own, strict=True):
            if own is not None:
                group["lr"] = own
