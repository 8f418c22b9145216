"""Recorded steps with an evaluation before them, for the tests of probes that look at it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from steps import SmallModel, batch, recorded_step, shifted_loss
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.tape.window import Window

Measure = Callable[[SmallModel], object]
# Held-back batches: 24 targets and 8.
HELD_BACK = ((3, 9), (2, 5))


def held_back() -> list[Tensor]:
    return [batch(rows, length) for rows, length in HELD_BACK]


def evaluated(measure: Measure, change: Callable[[SmallModel], None] | None = None) -> Window:
    """A recorded step before which something is measured without gradients."""

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        assert isinstance(model, SmallModel)
        with torch.no_grad():
            measure(model)
        return shifted_loss(model, tokens)

    return recorded_step(loss, change)


def read_means(model: SmallModel) -> None:
    """The mean of each batch is read."""
    for tokens in held_back():
        shifted_loss(model, tokens).item()


def read_smoothed(model: SmallModel) -> None:
    for tokens in held_back():
        scores, targets = model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
        F.cross_entropy(scores, targets, label_smoothing=0.1).item()
