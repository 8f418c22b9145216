"""Gradients clipped by their norm."""

from __future__ import annotations

import pytest
import torch
from changed_runs import VOCABULARY, Net, Ran, batch, sgd, trained, with_changes
from torch import nn

from lossleuth.interventions.gradient.clip_gradients import ClipGradients


def clipping(norm: float, first: float | None = None) -> Ran:
    def clip(net: Net) -> None:
        if first is not None:
            torch.nn.utils.clip_grad_norm_(net.parameters(), first)
        torch.nn.utils.clip_grad_norm_(net.parameters(), norm)

    return trained(make=sgd, before_step=clip)


@pytest.mark.parametrize("norm", [1e-3, 0.1, 0.5])
def test_a_program_that_does_not_clip_becomes_one_that_does(norm: float) -> None:
    found = with_changes(lambda: trained(make=sgd), ClipGradients(norm))
    assert not trained(make=sgd).is_exactly(clipping(norm))
    assert found.is_exactly(clipping(norm))


def test_gradients_that_are_short_enough_are_left_exactly_as_they_are() -> None:
    assert with_changes(trained, ClipGradients(1e9)).is_exactly(trained())


def test_what_the_program_clips_is_clipped_once_more() -> None:
    found = with_changes(lambda: clipping(0.2), ClipGradients(0.1))
    assert found.is_exactly(clipping(0.1, first=0.2))
    assert with_changes(lambda: clipping(0.1), ClipGradients(0.2)).is_exactly(clipping(0.1))


def sparse(norm: float | None) -> Ran:
    """A table whose gradient has only the rows that were looked up, some of them twice."""
    torch.manual_seed(0)
    table = nn.Embedding(VOCABULARY, 4, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.5)
    losses = []
    for step in range(4):
        loss = (table(batch(step)) - 1).square().sum()
        optimizer.zero_grad()
        loss.backward()
        if norm is not None:
            gradient = table.weight.grad
            assert gradient is not None
            size = gradient.to_dense().norm()
            table.weight.grad = gradient * float(min(1.0, norm / size))
        optimizer.step()
        losses.append(loss.item())
    return Ran(losses, table.weight.detach())


def test_sparse_gradients_are_clipped_by_what_they_add_up_to() -> None:
    assert sparse(None).distance(sparse(0.5)) > 1e-2
    assert with_changes(lambda: sparse(None), ClipGradients(0.5)).distance(sparse(0.5)) < 1e-6


def scaled(norm: float | None, scale: float) -> Ran:
    """A fused optimizer, which takes the scale of the loss back by itself."""
    weight = torch.linspace(0.5, 2, 4).requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    losses = []
    for _ in range(4):
        loss = weight.square().sum()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if norm is not None:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_([weight], norm)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return Ran(losses, weight.detach().clone())


def test_a_scaled_loss_is_clipped_by_its_true_gradient() -> None:
    found = with_changes(lambda: scaled(None, 2.0**10), ClipGradients(0.5))
    assert scaled(None, 2.0**10).distance(scaled(0.5, 1.0)) > 0.1
    assert found.distance(scaled(0.5, 1.0)) < 1e-5


def test_parameters_without_a_gradient_are_no_obstacle() -> None:
    def headless() -> Ran:
        return trained(make=sgd, before_step=lambda net: net.head.zero_grad())

    def emptied() -> Ran:
        return trained(make=sgd, before_step=lambda net: net.zero_grad())

    assert with_changes(headless, ClipGradients(1e9)).is_exactly(headless())
    assert with_changes(emptied, ClipGradients(0.1)).is_exactly(emptied())
