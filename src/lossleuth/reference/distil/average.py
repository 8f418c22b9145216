"""Averaged weights, with a horizon that fits the run."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def decay(update: int, horizon: float) -> float:
    """How much of the average stays at an update, counted from 0.

    A plain mean of all weights so far until the horizon is reached, an exponential one from then
    on: the random start is never in it, however short the run.

    >>> [round(decay(update, 10), 2) for update in (0, 1, 3, 50)]
    [0.0, 0.5, 0.75, 0.9]
    """
    return min(update / (update + 1), 1 - 1 / max(1.0, horizon))


class Average:
    """The average of a model's parameters over the last steps.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> average = Average(model, horizon=100)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     average.update(model)
    >>> round(average.tensors["weight"].item(), 6)
    3.0
    """

    def __init__(self, model: nn.Module, horizon: float) -> None:
        self.horizon = horizon
        self.updates = 0
        self.tensors = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take a step's weights in."""
        share = 1 - decay(self.updates, self.horizon)
        for name, parameter in model.named_parameters():
            self.tensors[name].lerp_(parameter, share)
        self.updates += 1

    @torch.no_grad()
    def put_into(self, model: nn.Module) -> None:
        """Give a model of the same kind the averaged weights."""
        for name, parameter in model.named_parameters():
            parameter.copy_(self.tensors[name])

    def restore(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Go on from what was saved."""
        self.updates = updates
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])
