"""Faulty updates are what their faults say."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_hosts import differs, losses, planted_in, small

from lossleuth.labs.lab.programs import plain
from lossleuth.labs.lab.programs.planting import Planted, fault_of, planted
from lossleuth.labs.lab.programs.training_parts import Settings

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("host", "name"), planted_in("optimizer_faults.py"))
def test_it_changes_what_the_host_does(host: str, name: str) -> None:
    assert differs(host, name)


def weights_after(name: str, rule: str = "", dose: float | None = None) -> bool:
    """Whether the model's weights are other ones after some steps."""
    parts = planted(small("plain", rule or fault_of(name).rule), [Planted(fault_of(name), dose)])
    models: list[torch.nn.Module] = []

    def model(settings: Settings) -> torch.nn.Module:
        models.append(parts.model(settings))
        return models[0]

    torch.manual_seed(parts.settings.seed)
    before = [p.clone() for p in parts.model(parts.settings).parameters()]
    plain.train(replace(parts, model=model))
    return any(not torch.equal(a, b) for a, b in zip(before, models[0].parameters(), strict=True))


@pytest.mark.parametrize("name", ["never_steps", "stale_parameters", "lr_zero"])
def test_the_weights_never_change(name: str) -> None:
    assert not weights_after(name)
    assert weights_after("lr_too_low")


@pytest.mark.parametrize(("name", "dose"), [("lr_too_high", 100), ("lr_too_low", 0.01)])
def test_the_rate_is_that_many_times_the_healthy_one(name: str, dose: float) -> None:
    parts = planted(small("plain"), [Planted(fault_of(name), dose)])
    made = parts.optimizer(torch.nn.Linear(1, 1), parts.settings)
    assert made.param_groups[0]["lr"] == pytest.approx(dose * parts.settings.rate)


def test_epsilon_is_the_dose_at_the_healthy_rate() -> None:
    parts = planted(small("plain"), [Planted(fault_of("epsilon_too_large"), 0.1)])
    (group,) = parts.optimizer(torch.nn.Linear(1, 1), parts.settings).param_groups
    assert (group["eps"], group["lr"]) == (0.1, parts.settings.rate)


def test_the_schedule_is_over_after_a_part_of_the_run() -> None:
    parts = planted(small("plain", steps=40), [Planted(fault_of("schedule_too_fast"), 4)])
    optimizer = parts.optimizer(torch.nn.Linear(1, 1), parts.settings)
    schedule = parts.schedule(optimizer, parts.settings)
    rates = []
    for _ in range(40):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert rates[0] == parts.settings.rate
    assert all(rate < 1e-3 * rates[0] for rate in rates[10:])


def test_the_loss_rises() -> None:
    found = losses("plain", "ascent")
    assert found[-1] > found[0]


def test_the_first_update_is_not_corrected() -> None:
    parts = planted(small("plain"), [Planted(fault_of("update_rule_wrong"), None)])
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = parts.optimizer(model, parts.settings)
    before = model.weight.item()
    parts.backward(model(torch.ones(1, 1)).sum())
    parts.update(optimizer, None)
    # A tenth of the gradient over the root of a thousandth of its square; corrected, it is 1.
    assert (before - model.weight.item()) / parts.settings.rate == pytest.approx(3.162, abs=0.01)


def test_gradients_are_cut_down_to_the_dose() -> None:
    parts = planted(small("plain", "sgd"), [Planted(fault_of("clip_too_tight"), 1e-3)])
    model = torch.nn.Linear(4, 1)
    parts.backward(model(torch.ones(1, 4)).sum())
    parts.before_update(model, None)
    assert model.bias.grad is not None
    assert model.bias.grad.item() == pytest.approx(1e-3 / 5**0.5, rel=1e-2)
