"""The update replaced by a textbook rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from changed_runs import Ran, adamw, trained, with_changes

from lossleuth.interventions.optimizer.use_rule import UseRule

Make = Callable[[Any], torch.optim.Optimizer]
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-6}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
]


def made(rule: str, settings: dict[str, Any]) -> Make:
    return lambda p: getattr(torch.optim, rule)(p, **settings)


@pytest.mark.parametrize(("rule", "settings"), SETTINGS)
def test_it_is_torchs_own_rule(rule: str, settings: dict[str, Any]) -> None:
    def own() -> Ran:
        return trained(steps=8, make=made(rule, settings), dtype=torch.float64)

    assert with_changes(own, UseRule(rule)).distance(own()) < 1e-12


def test_usual_settings_replace_odd_ones() -> None:
    odd = made("AdamW", {"lr": 0.01, "betas": (0.999, 0.9), "eps": 0.1})
    usual = made("AdamW", {"lr": 0.01})
    expected = trained(make=usual, dtype=torch.float64)
    assert trained(make=odd, dtype=torch.float64).distance(expected) > 1e-3
    found = with_changes(
        lambda: trained(make=odd, dtype=torch.float64), UseRule("AdamW", usual=True)
    )
    assert found.distance(expected) < 1e-12


class Careless(torch.optim.Optimizer):
    """Has the settings of Adam and forgets to correct its bias."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # no closure
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            one, two = state.get("m", 0.0), state.get("v", 0.0)
            state["m"], state["v"] = 0.9 * one + 0.1 * p.grad, 0.999 * two + 0.001 * p.grad**2
            p -= 0.01 * state["m"] / (state["v"].sqrt() + 1e-8)


def test_a_wrong_optimizer_becomes_the_right_one() -> None:
    right = made("AdamW", {"lr": 0.01, "weight_decay": 0.0})
    expected = trained(make=right, dtype=torch.float64)
    assert trained(make=Careless, dtype=torch.float64).distance(expected) > 1e-3
    found = with_changes(lambda: trained(make=Careless, dtype=torch.float64), UseRule("AdamW"))
    assert found.distance(expected) < 1e-12


def test_a_schedule_is_followed() -> None:
    def scheduled() -> Ran:
        schedule = torch.optim.lr_scheduler.ExponentialLR
        return trained(schedule=lambda o: schedule(o, 0.5), make=adamw, dtype=torch.float64)

    assert with_changes(scheduled, UseRule("AdamW")).distance(scheduled()) < 1e-12


def test_updates_that_a_coarse_type_swallows_are_remembered() -> None:
    def coarse() -> Ran:
        weight = torch.full((3,), 256.0, dtype=torch.bfloat16, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.25)
        losses = []
        for _ in range(16):
            optimizer.zero_grad()
            loss = weight.sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return Ran(losses, weight.detach().double())

    # One unit of bfloat16 is 1 just below 256 and 2 above: a quarter is lost each time.
    assert set(coarse().weights.tolist()) == {256.0}
    assert set(with_changes(coarse, UseRule("SGD")).weights.tolist()) == {252.0}


def test_what_the_program_writes_between_updates_is_respected() -> None:
    def reset(rule: str | None) -> Ran:
        weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def run() -> Ran:
            for step in range(4):
                optimizer.zero_grad()
                weight.square().sum().backward()
                optimizer.step()
                if step == 1:
                    weight.data.fill_(5.0)
            return Ran([], weight.detach().clone())

        return run() if rule is None else with_changes(run, UseRule(rule))

    assert reset("SGD").distance(reset(None)) < 1e-12
