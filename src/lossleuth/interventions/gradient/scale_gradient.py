"""What each backward pass adds to the gradients, times a factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention, parameters_of
from lossleuth.tape.window import Backward, Window


class ScaleGradient(Intervention):
    """Scale gradients as if the loss had been multiplied."""

    only_scales_gradients = True

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._known: dict[int, Tensor] = {}
        self._before: dict[int, Tensor | None] = {}

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        """Learn what will be updated."""
        self._known |= {id(p): p for p in parameters_of(optimizer)}

    def backward_begins(self, roots: Sequence[Any], *, first: bool) -> None:
        """Remember the gradients."""
        self._before = {
            key: None if p.grad is None else p.grad.detach().clone()
            for key, p in self._known.items()
        }

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Scale what was added."""
        with torch.no_grad():
            for key, parameter in self._known.items():
                before, now = self._before.get(key), parameter.grad
                if now is not None:
                    scaled = (
                        now * self._factor
                        if before is None
                        else torch.lerp(before, now, self._factor)
                    )
                    parameter.grad = scaled
