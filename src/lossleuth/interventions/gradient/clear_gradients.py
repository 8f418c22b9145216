"""Gradients cleared before the first backward pass of each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention, parameters_of


class ClearGradients(Intervention):
    """Start every step with no gradient."""

    def __init__(self) -> None:
        self._known: dict[int, Tensor] = {}

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Note the parameters."""
        self._known |= {id(p): p for p in parameters_of(optimizer)}

    def updated_by_hand(self, parameters: Sequence[Tensor], before: Sequence[Tensor]) -> None:
        """The same without an optimizer."""
        self._known |= {id(p): p for p in parameters}

    def backward_begins(self, roots: Sequence[Any], *, first: bool) -> None:
        """Clear the gradients before the step's first backward pass."""
        if first:
            for parameter in self._known.values():
                parameter.grad = None
