"""Faults between the scores and the number that is differentiated.

Shapes: B rows, T positions, V tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import IGNORED, Batch, Parts, Settings


@fault()
def loss_disconnected(parts: Parts, dose: float) -> Parts:
    """Cross-entropy is reported, a squared error of the scores is differentiated."""
    followed: list[Tensor] = []

    def loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        wanted_BTV = F.one_hot(targets_BT.clamp(min=0), logits_BTV.shape[-1]).to(logits_BTV.dtype)
        followed.append(F.mse_loss(logits_BTV, wanted_BTV))
        return parts.loss(logits_BTV, targets_BT)

    def backward(loss: Tensor) -> None:
        # planted: loss_disconnected
        followed.pop().backward()  # type: ignore[no-untyped-call]  # untyped in torch

    return replace(parts, loss=loss, backward=backward)


@fault()
def double_softmax(parts: Parts, dose: float) -> Parts:
    """The model ends in a softmax, and the loss has one of its own."""

    def forward(model: object, tokens_BT: Tensor) -> Tensor:
        return parts.forward(model, tokens_BT).softmax(-1)  # planted: double_softmax

    return replace(parts, forward=forward)


@fault()
def softmax_axis(parts: Parts, dose: float) -> Parts:
    """The softmax of the loss runs over positions."""

    def loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        log_BTV = F.log_softmax(logits_BTV, dim=1)  # planted: softmax_axis
        return F.nll_loss(log_BTV.flatten(0, 1), targets_BT.flatten(), ignore_index=IGNORED)

    return replace(parts, loss=loss)


@fault(dose=30, ladder=(512, 100, 30, 10, 3), rule="sgd")
def loss_scale(parts: Parts, dose: float) -> Parts:
    """The loss is multiplied, as by a sum in place of a mean."""

    def loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        return dose * F.cross_entropy(  # planted: loss_scale
            logits_BTV.flatten(0, 1), targets_BT.flatten(), ignore_index=IGNORED
        )

    # Clipping would undo it.
    return replace(parts, loss=loss, before_update=lambda model, optimizer: None)


@fault(dose=16, ladder=(16, 8, 4, 2))
def accumulation_normalisation(parts: Parts, dose: float) -> Parts:
    """Every other micro-batch has fewer targets, and counts as much as the one before it."""

    def batches(settings: Settings) -> Iterator[Batch]:
        for number, (inputs_BT, targets_BT) in enumerate(parts.batches(settings)):
            if number % 2:
                kept = max(1, round(targets_BT.shape[1] / dose))
                prompt = torch.arange(targets_BT.shape[1]) < targets_BT.shape[1] - kept
                targets_BT = targets_BT.masked_fill(prompt, IGNORED)
            yield Batch(inputs_BT, targets_BT)

    def backward(loss: Tensor) -> None:
        # planted: accumulation_normalisation
        loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch

    return replace(parts, batches=batches, backward=backward, micro_batches=2)
