"""Faults of number formats.

Shapes: B rows, T positions, C channels, V tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import Parts, Settings


@fault()
def overflow(parts: Parts, dose: float) -> Parts:
    """A penalty on large scores is summed in half precision, over all of a batch."""

    def loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        penalty = logits_BTV.half().pow(2).sum()  # planted: overflow
        return parts.loss(logits_BTV, targets_BT) + 1e-6 * penalty.float()

    return replace(parts, loss=loss)


@fault(dose=0.2, ladder=(0.03, 0.1, 0.2, 0.3))
def update_swallowed(parts: Parts, dose: float) -> Parts:
    """Weights are kept in bfloat16, at a rate that it cannot resolve."""

    def model(settings: Settings) -> nn.Module:
        return parts.model(settings).bfloat16()

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        rate = dose * settings.rate
        return torch.optim.AdamW(model.parameters(), lr=rate)  # planted: update_swallowed

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        return parts.forward(model, tokens_BT).float()

    return replace(parts, model=model, optimizer=optimizer, forward=forward)


@fault(dose=64.0, ladder=(256.0, 64.0, 16.0, 4.0))
def rounding_error(parts: Parts, dose: float) -> Parts:
    """The spread of a row is a difference of large means, taken in bfloat16."""

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        x_BTC = (parts.embed(model, tokens_BT) + dose).bfloat16()
        mean = x_BTC.mean(-1, keepdim=True)
        spread = x_BTC.pow(2).mean(-1, keepdim=True) - mean.pow(2)  # planted: rounding_error
        normed = (x_BTC - mean) * (spread.relu() + 1e-2).rsqrt()
        return parts.decode(model, normed.float())

    return replace(parts, forward=forward)
