"""Faulty gradients are what their faults say."""

from __future__ import annotations

import pytest
import torch
from small_hosts import differs, module, planted_in, small

from lossleuth.labs.lab.cells import HOSTS
from lossleuth.labs.lab.programs.planting import Planted, fault_of, planted
from lossleuth.labs.lab.programs.training_parts import Parts, cross_entropy

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("host", "name"), planted_in("gradient_faults.py"))
def test_it_changes_what_the_host_does(host: str, name: str) -> None:
    assert differs(host, name)


def parts_with(name: str, dose: float | None = None, host: str = "plain") -> Parts:
    return planted(small(host), [Planted(fault_of(name), dose)])


def test_the_forward_is_right_and_the_backward_is_not() -> None:
    logits_BTV = torch.randn(2, 5, 7, requires_grad=True)
    targets_BT = torch.randint(0, 7, (2, 5))
    loss = parts_with("wrong_backward").loss(logits_BTV, targets_BT)
    true = cross_entropy(logits_BTV, targets_BT)
    assert loss.item() == pytest.approx(true.item(), abs=1e-5)
    (used,), (right,) = (torch.autograd.grad(x, logits_BTV) for x in (loss, true))
    assert (used - right).norm() > 0.5 * right.norm()


@pytest.mark.parametrize("host", HOSTS)
def test_behind_the_cut_nothing_gets_a_gradient(host: str) -> None:
    parts = parts_with("graph_cut", host=host)
    model = module(host).made(parts)
    inputs_BT, targets_BT = next(parts.batches(parts.settings))
    parts.backward(parts.loss(parts.forward(model, inputs_BT), targets_BT))
    owner, name = parts.stack(model)
    assert all(p.grad is None for p in getattr(owner, name).parameters())
    assert any(p.grad is not None for p in model.parameters())


def test_gradients_are_kept_from_step_to_step() -> None:
    parts = parts_with("gradient_not_cleared")
    model = torch.nn.Linear(2, 1)
    optimizer = parts.optimizer(model, parts.settings)
    for times in (1, 2, 3):
        parts.clear(optimizer)
        parts.backward(model(torch.ones(1, 2)).sum())
        assert model.bias.grad is not None and model.bias.grad.item() == times


@pytest.mark.parametrize("host", ["plain", "lightning_trainer"])
def test_nothing_is_left_for_the_update(host: str) -> None:
    parts = parts_with("gradient_wiped", host=host)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.bias.item()
    parts.backward(model(torch.ones(1, 2)).sum())
    parts.before_update(model, optimizer)
    parts.update(optimizer, None)
    assert model.bias.item() == before


@pytest.mark.parametrize("host", HOSTS)
def test_layers_are_frozen_and_in_the_optimizer(host: str) -> None:
    parts = parts_with("parameters_frozen", host=host)
    model = module(host).made(parts)
    optimizer = parts.optimizer(model, parts.settings)
    owner, name = parts.stack(model)
    frozen = list(getattr(owner, name).parameters())
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert frozen and all(not p.requires_grad and id(p) in held for p in frozen)
