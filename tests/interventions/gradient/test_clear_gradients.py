"""Gradients cleared before each step."""

from __future__ import annotations

import torch
from changed_runs import Ran, trained, with_changes

from lossleuth.interventions.gradient.clear_gradients import ClearGradients


def test_where_gradients_are_cleared_nothing_changes() -> None:
    assert with_changes(trained, ClearGradients()).is_exactly(trained())


def test_a_run_that_never_clears_equals_one_that_does() -> None:
    def forgetful() -> Ran:
        return trained(clear=lambda optimizer: None)

    assert not forgetful().is_exactly(trained())
    assert with_changes(forgetful, ClearGradients()).is_exactly(trained())


def accumulating(clears: bool) -> Ran:
    """Two backward passes for each update."""
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    losses = []
    for step in range(8):
        loss = (weight * step).square().mean() / 2
        loss.backward()
        losses.append(loss.item())
        if step % 2:
            optimizer.step()
            if clears:
                optimizer.zero_grad()
    return Ran(losses, weight.detach())


def test_micro_batches_of_one_step_still_add_up() -> None:
    assert with_changes(lambda: accumulating(True), ClearGradients()).is_exactly(accumulating(True))
    found = with_changes(lambda: accumulating(False), ClearGradients())
    assert found.is_exactly(accumulating(True))


def by_hand(clears: bool) -> Ran:
    weight = torch.linspace(-1, 1, 5).requires_grad_()
    losses = []
    for _ in range(6):
        loss = (weight - 3).square().sum()
        loss.backward()
        with torch.no_grad():
            assert weight.grad is not None
            weight -= 0.05 * weight.grad
        if clears:
            weight.grad = None
        losses.append(loss.item())
    return Ran(losses, weight.detach())


def test_it_works_without_an_optimizer() -> None:
    assert by_hand(False).losses != by_hand(True).losses
    assert with_changes(lambda: by_hand(False), ClearGradients()).losses == by_hand(True).losses
