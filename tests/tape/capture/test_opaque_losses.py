"""Losses that a kernel outside torch has computed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from steps import recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.gradient.gradient_truth import gradient_truth
from lossleuth.tape.capture.opaque_losses import value_of
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window


class Kernel(torch.autograd.Function):
    """Writes to memory that torch has filled with zeros, as a library does."""

    reduction = "mean"
    factor = 1.0
    offset = 0.0

    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor) -> Tensor:
        scores, targets = scores.contiguous(), targets.contiguous()
        loss = torch.zeros(1)
        with torch.enable_grad():
            own = scores.detach().double().requires_grad_()
            value = F.cross_entropy(own, targets, reduction=Kernel.reduction)
            (gradient,) = torch.autograd.grad(value, own)
        loss.numpy()[0] = float(value.detach()) + Kernel.offset
        ctx.gradient = gradient.float()
        return loss[0].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return Kernel.factor * ctx.gradient * gradients[0], None


def through_the_kernel(model: nn.Module, tokens: Tensor) -> Tensor:
    return Kernel.apply(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


@pytest.fixture(params=["mean", "sum"])
def reduction(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Kernel, "reduction", request.param)
    return str(request.param)


def error_of(window: Window) -> float:
    return gradient_truth(window, window.backwards[0]).error


@pytest.mark.usefixtures("reduction")
def test_a_cross_entropy_is_known_by_its_value_and_replayed() -> None:
    window = recorded_step(through_the_kernel)
    assert error_of(window) < 1e-4
    roles = find_roles(window)
    assert roles is not None
    assert roles.targets is not None


@pytest.mark.usefixtures("reduction")
def test_a_wrong_gradient_of_the_kernel_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "factor", 1.5)
    assert error_of(recorded_step(through_the_kernel)) == pytest.approx(0.5, rel=1e-3)


def test_another_loss_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "offset", 0.1)
    window = recorded_step(through_the_kernel)
    assert gradient_truth(window, window.backwards[0]).untested is not None


def test_only_a_single_number_has_a_value() -> None:
    assert value_of(torch.tensor([2.5])) == 2.5
    assert all(math.isnan(value_of(t)) for t in (None, torch.ones(2), torch.tensor(1)))
