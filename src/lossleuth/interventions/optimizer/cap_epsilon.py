"""An epsilon that is no larger than a value, in every update.

A smaller one is left as it is, so that a value at or above the program's own changes nothing.
"""

from __future__ import annotations

from typing import Any

import torch

from lossleuth.interventions.intervention import Intervention


class CapEpsilon(Intervention):
    """Cap the epsilon of every group whose settings have one that is a single number."""

    def __init__(self, value: float) -> None:
        self._value = value
        self._own: list[Any] = []

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Put the smaller epsilon in."""
        self._own = [group.get("eps") for group in optimizer.param_groups]
        for group, own in zip(optimizer.param_groups, self._own, strict=True):
            # Some optimizers have two of them, with a meaning of their own.
            if isinstance(own, int | float) and own > self._value:
                group["eps"] = self._value

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Restore the program's own."""
        for group, own in zip(optimizer.param_groups, self._own, strict=True):
            if own is not None:
                group["eps"] = own
