"""The learning rate times a factor.

The update itself is scaled, which is the same for every rule whose step is proportional to its
rate and works for those that keep their rate to themselves. -1 turns the step around.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention, copies, parameters_of


class ScaleLr(Intervention):
    """Scale every update."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._before: list[Tensor] = []

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Remember the weights."""
        self._before = copies(parameters_of(optimizer))

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Scale the step."""
        self.updated_by_hand(parameters_of(optimizer), self._before)

    def updated_by_hand(self, parameters: Sequence[Tensor], before: Sequence[Tensor]) -> None:
        """The same for an update without an optimizer."""
        with torch.no_grad():
            for parameter, old in zip(parameters, before, strict=True):
                parameter.data.copy_(torch.lerp(old, parameter.detach(), self._factor))
