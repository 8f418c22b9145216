"""The parts of a healthy script do what they say."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from lossleuth.labs.lab.programs import training_parts as ordinary
from lossleuth.labs.lab.programs.training_parts import IGNORED, Settings


def test_targets_are_the_next_tokens() -> None:
    batches = ordinary.next_tokens(Settings(rows=3, length=8))
    inputs_BT, targets_BT = next(batches)
    assert inputs_BT.shape == targets_BT.shape == (3, 8)
    assert torch.equal(inputs_BT[:, 1:], targets_BT[:, :-1])
    assert not torch.equal(next(batches).inputs_BT, inputs_BT)


def test_batches_depend_on_the_seed_only() -> None:
    settings = Settings(rows=3, length=8)
    first, again = (next(ordinary.windows(settings)) for _ in range(2))
    other = next(ordinary.windows(replace(settings, seed=1)))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_the_loss_of_knowing_nothing_is_the_logarithm_of_the_vocabulary() -> None:
    loss = ordinary.cross_entropy(torch.zeros(2, 3, 64), torch.ones(2, 3, dtype=torch.long))
    assert loss.item() == pytest.approx(math.log(64))


def test_targets_that_count_for_nothing_do_not() -> None:
    logits_BTV = torch.randn(1, 2, 5)
    targets_BT = torch.tensor([[3, IGNORED]])
    alone = ordinary.cross_entropy(logits_BTV[:, :1], targets_BT[:, :1])
    assert ordinary.cross_entropy(logits_BTV, targets_BT).item() == pytest.approx(alone.item())


@pytest.mark.parametrize(("rule", "kind"), [("adamw", "AdamW"), ("sgd", "SGD")])
def test_the_rule_that_is_asked_for_is_used_on_all_parameters(rule: str, kind: str) -> None:
    model = torch.nn.Linear(2, 2)
    made = ordinary.optimizer(model, Settings(rule=rule, rate=0.5))
    assert type(made).__name__ == kind and made.param_groups[0]["lr"] == 0.5
    assert len(made.param_groups[0]["params"]) == 2


def test_the_rate_is_reached_after_the_warm_up_and_kept() -> None:
    settings = Settings(rate=1.0, warmup=4)
    optimizer = ordinary.optimizer(torch.nn.Linear(2, 2), settings)
    schedule = ordinary.schedule(optimizer, settings)
    rates = []
    for _ in range(6):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_a_step_is_cleared_differentiated_clipped_and_applied() -> None:
    model = torch.nn.Linear(2, 1, bias=False)
    optimizer = ordinary.optimizer(model, Settings(rule="sgd", rate=0.1))
    before = model.weight.detach().clone()
    ordinary.backward(100 * model(torch.ones(1, 2)).sum())
    ordinary.before_update(model, optimizer)
    assert model.weight.grad is not None
    assert model.weight.grad.norm().item() == pytest.approx(1.0, abs=1e-4)
    ordinary.update(optimizer)
    assert (before - model.weight).norm().item() == pytest.approx(0.1, abs=1e-4)
    ordinary.clear(optimizer)
    assert model.weight.grad is None
