"""The gradient replaced by the true one."""

from __future__ import annotations

from typing import Any

import torch
from changed_runs import Net, Ran, WrongTanh, sgd, trained, with_changes

from lossleuth.interventions.gradient.follow_true_gradient import FollowTrueGradient


def wrong(net: Net) -> None:
    net.between = WrongTanh.apply  # type: ignore[assignment]  # a function of tensors


def cut(net: Net) -> None:
    net.between = lambda x: torch.tanh(x.detach())


def test_a_true_gradient_is_followed_as_before() -> None:
    assert with_changes(trained, FollowTrueGradient()).distance(trained()) < 1e-6


def test_a_wrong_backward_is_repaired() -> None:
    def harmed() -> Ran:
        return trained(make=sgd, plant=wrong)

    right = trained(make=sgd)
    assert harmed().distance(right) > 1e-2
    assert with_changes(harmed, FollowTrueGradient()).distance(right) < 1e-6


def test_gradients_that_were_there_before_are_kept() -> None:
    def adding(plant: Any) -> Ran:
        return trained(make=sgd, plant=plant, clear=lambda optimizer: None)

    found = with_changes(lambda: adding(wrong), FollowTrueGradient())
    assert found.distance(adding(lambda net: None)) < 1e-5


def test_a_cut_is_opened_only_where_that_is_asked_for() -> None:
    def starved() -> Ran:
        return trained(make=sgd, plant=cut)

    assert with_changes(starved, FollowTrueGradient()).distance(starved()) < 1e-6
    assert starved().distance(trained(make=sgd)) > 1e-2
    opened = with_changes(starved, FollowTrueGradient(opened=True))
    assert opened.distance(trained(make=sgd)) < 1e-6


def test_gradients_that_are_returned_are_left_alone() -> None:
    def returned() -> Ran:
        weight = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        losses = []
        for _ in range(3):
            loss = WrongTanh.apply(weight).sum()
            (weight.grad,) = torch.autograd.grad(loss, [weight])
            optimizer.step()
            losses.append(loss.item())
        return Ran(losses, weight.detach())

    assert with_changes(returned, FollowTrueGradient()).is_exactly(returned())


def test_what_comes_before_the_first_module_belongs_to_the_step_as_well() -> None:
    """No module, lookup or loader tells where the next step begins."""

    def bare(function: Any) -> Ran:
        torch.manual_seed(0)
        table, head = torch.nn.Parameter(torch.randn(7, 5)), torch.nn.Linear(5, 3)
        optimizer = sgd([table, *head.parameters()])
        losses = []
        for _ in range(4):
            loss = head(function(table)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return Ran(losses, table.detach().double())

    right = bare(torch.tanh)
    assert bare(WrongTanh.apply).distance(right) > 1e-2
    assert with_changes(lambda: bare(WrongTanh.apply), FollowTrueGradient()).distance(right) < 1e-5
