"""Initial weights drawn anew: matrices random, vectors that are all zero set to one.

It happens at the first update, which is undone, as with `rescale_weights`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention, copies, parameters_of

SEED = 4711


class RedrawWeights(Intervention):
    """Give a dead network a start: only tensors without any variation are touched."""

    def __init__(self) -> None:
        self._before: list[Tensor] | None = None
        self._done: set[int] = set()

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Remember the initial weights."""
        if id(optimizer) not in self._done:
            self._before = copies(parameters_of(optimizer))

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Start again from new random weights and a fresh optimizer state."""
        if id(optimizer) in self._done or self._before is None:
            return
        self._done.add(id(optimizer))
        generator = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for parameter, start in zip(parameters_of(optimizer), self._before, strict=True):
                parameter.data.copy_(_drawn(start, generator))
        optimizer.state.clear()
        self._before = None


def _drawn(weight: Tensor, generator: torch.Generator) -> Tensor:
    if weight.numel() and bool((weight != weight.flatten()[0]).any()):
        return weight
    if weight.dim() < 2:
        zero = not bool(weight.any())
        return torch.ones_like(weight) if zero else weight
    size = weight.shape[-1] ** -0.5
    drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    return drawn.mul(size).to(weight.dtype)
