"""Weight decay switched off."""

from __future__ import annotations

from typing import Any

import torch

from lossleuth.interventions.intervention import Intervention


class NoDecay(Intervention):
    """No decay in any update, as far as the optimizer's settings have one."""

    def __init__(self) -> None:
        self._own: list[Any] = []

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Set weight decay to 0."""
        self._own = [group.get("weight_decay") for group in optimizer.param_groups]
        for group, decay in zip(optimizer.param_groups, self._own, strict=True):
            if decay is not None:
                group["weight_decay"] = 0.0

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Restore the program's weight decay."""
        for group, decay in zip(optimizer.param_groups, self._own, strict=True):
            if decay is not None:
                group["weight_decay"] = decay
