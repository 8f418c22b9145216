"""Every update times a factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from changed_runs import Net, Ran, adamw, batch, entropy, sgd, trained, with_changes

from lossleuth.interventions.optimizer.scale_lr import ScaleLr

KINDS: list[Callable[[float], Callable[[Any], torch.optim.Optimizer]]] = [
    lambda factor: lambda p: torch.optim.SGD(p, lr=0.1 * factor, momentum=0.9, weight_decay=0.01),
    lambda factor: lambda p: torch.optim.AdamW(p, lr=0.01 * factor, weight_decay=0.1),
    lambda factor: lambda p: torch.optim.AdamW(p, lr=0.01 * factor, fused=True),
]


@pytest.mark.parametrize("make", [adamw, sgd])
def test_factor_one_is_exactly_no_change(make: Any) -> None:
    bare = trained(make=make)
    assert with_changes(lambda: trained(make=make), ScaleLr(1.0)).is_exactly(bare)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [0.0, 0.1, 3.0, -1.0])
def test_it_equals_the_run_with_that_rate(kind: Any, factor: float) -> None:
    if factor < 0:
        # No optimizer takes a negative rate; turned around, the first step is the opposite one.
        own = trained(steps=1, make=kind(1.0))
        start = trained(steps=0, make=kind(1.0))
        turned = with_changes(lambda: trained(steps=1, make=kind(1.0)), ScaleLr(factor))
        assert torch.allclose(turned.weights - start.weights, start.weights - own.weights)
        return
    expected = trained(make=kind(factor), dtype=torch.float64)
    found = with_changes(lambda: trained(make=kind(1.0), dtype=torch.float64), ScaleLr(factor))
    assert found.distance(expected) < 1e-12
    assert factor == 0 or found.distance(trained(make=kind(1.0), dtype=torch.float64)) > 1e-3


def by_hand(rate: float) -> Ran:
    """Descent without an optimizer."""
    torch.manual_seed(0)
    net = Net().double()
    losses = []
    for step in range(6):
        tokens = batch(step)
        loss = entropy(net(tokens[:, :-1]), tokens[:, 1:])
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(net.parameters(), gradients, strict=True):
                parameter -= rate * gradient
        losses.append(loss.item())
    return Ran(losses, torch.cat([p.detach().flatten() for p in net.parameters()]))


def test_an_update_by_hand_is_scaled_as_well() -> None:
    assert with_changes(lambda: by_hand(1.0), ScaleLr(1.0)).is_exactly(by_hand(1.0))
    found = with_changes(lambda: by_hand(1.0), ScaleLr(0.5))
    assert found.losses == pytest.approx(by_hand(0.5).losses, rel=1e-12)
    assert found.losses[-1] != pytest.approx(by_hand(1.0).losses[-1], rel=1e-3)
