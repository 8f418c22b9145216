"""Faults between the loss and the gradient that an update uses.

Shapes: B rows, T positions, C channels, V tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import IGNORED, Parts, Settings, optimizer_of


@fault()
def wrong_backward(parts: Parts, dose: float) -> Parts:
    """A log-softmax of its own, whose backward takes the incoming gradient to be positive."""

    class LogSoftmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, logits: Tensor) -> Tensor:
            log = logits - logits.logsumexp(-1, keepdim=True)
            ctx.save_for_backward(log)
            return log

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # planted: wrong_backward
            (log,) = ctx.saved_tensors
            wrong: Tensor = gradient - log.exp() / len(gradient)
            return wrong

    def loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        log_NV = LogSoftmax.apply(logits_BTV.flatten(0, 1))  # type: ignore[no-untyped-call]  # untyped in torch
        return nn.functional.nll_loss(log_NV, targets_BT.flatten(), ignore_index=IGNORED)

    return replace(parts, loss=loss)


@fault()
def graph_cut(parts: Parts, dose: float) -> Parts:
    """Layers are run without a graph, to save memory."""

    class Thrifty(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, *inputs: Any, **options: Any) -> Any:
            with torch.no_grad():
                return self.layer(*inputs, **options)  # planted: graph_cut

    def model(settings: Settings) -> nn.Module:
        made = parts.model(settings)
        owner, name = parts.stack(made)
        setattr(owner, name, nn.ModuleList(Thrifty(layer) for layer in getattr(owner, name)))
        return made

    return replace(parts, model=model)


@fault()
def gradient_not_cleared(parts: Parts, dose: float) -> Parts:
    """Nobody calls zero_grad."""

    def update(optimizer: Any, closure: Any = None) -> None:
        optimizer.step(closure)  # planted: gradient_not_cleared

    return replace(parts, clear=lambda optimizer: None, update=update)


@fault()
def gradient_wiped(parts: Parts, dose: float) -> Parts:
    """Gradients are cleared right before the update."""

    def update(optimizer: Any, closure: Any = None) -> None:
        optimizer.zero_grad()  # planted: gradient_wiped
        optimizer.step(closure)

    def before_update(model: nn.Module, optimizer: Any) -> None:
        optimizer.zero_grad()  # planted: gradient_wiped lightning_trainer

    if parts.host == "lightning_trainer":
        # Its update begins with the backward pass.
        return replace(parts, before_update=before_update)
    return replace(parts, update=update)


@fault()
def parameters_frozen(parts: Parts, dose: float) -> Parts:
    """Layers were frozen for a first phase, which nobody ended."""

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        owner, name = parts.stack(model)
        for parameter in getattr(owner, name).parameters():
            parameter.requires_grad_(False)  # planted: parameters_frozen
        return optimizer_of(model.parameters(), settings, settings.rate)

    return replace(parts, optimizer=optimizer)
