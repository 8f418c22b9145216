"""The optimizer given what it does not have."""

from __future__ import annotations

import torch
from changed_runs import Net, Ran, trained, with_changes

from lossleuth.interventions.optimizer.add_missing_parameters import AddMissingParameters


def rate(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.0)  # type: ignore[arg-type]  # parameters


def test_where_nothing_is_missing_nothing_changes() -> None:
    assert with_changes(trained, AddMissingParameters()).is_exactly(trained())


def test_what_is_missing_is_trained_as_if_it_had_been_there() -> None:
    def partly() -> Ran:
        return trained(make=rate, held=lambda net: net.head.parameters())

    whole = trained(make=rate)
    assert partly().distance(whole) > 1e-2
    # Nobody clears the gradients of what the optimizer does not have.
    assert with_changes(partly, AddMissingParameters()).distance(whole) < 1e-6


def test_other_copies_of_the_weights_do_not_count_as_held() -> None:
    def stale() -> Ran:
        return trained(make=rate, held=lambda net: Net().parameters())

    start = trained(steps=0)
    assert stale().is_exactly(Ran(stale().losses, start.weights))
    assert with_changes(stale, AddMissingParameters()).distance(trained(make=rate)) < 1e-6


def test_what_another_optimizer_has_is_not_missing() -> None:
    def alternating() -> Ran:
        a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        one, two = torch.optim.SGD([a], lr=0.1), torch.optim.SGD([b], lr=0.2)
        losses = []
        for step in range(6):
            loss = (a * b - 3).square().sum()
            one.zero_grad()
            two.zero_grad()
            loss.backward()
            (two if step % 2 else one).step()
            losses.append(loss.item())
        return Ran(losses, torch.cat([a, b]).detach())

    assert with_changes(alternating, AddMissingParameters()).is_exactly(alternating())
