"""Settings as they are."""

from __future__ import annotations

import torch

from lossleuth.observe.sampling import EVERY, FIRST_STEPS
from lossleuth.observe.steps.parameters.table import ParameterTable
from lossleuth.observe.steps.settings import ChangedSettings, resolved_settings, settings_signature


def optimizer() -> torch.optim.AdamW:
    parameters = [torch.nn.Parameter(torch.zeros(n)) for n in (2, 3)]
    groups = [{"params": parameters[:1], "weight_decay": 0.5}, {"params": parameters[1:]}]
    return torch.optim.AdamW(groups, lr=0.1, betas=(0.8, 0.9))


def test_every_group_tells_what_it_is_run_with() -> None:
    first, second = resolved_settings([optimizer()])["optimizers"][0]["groups"]
    assert (first["weight_decay"], first["elements"]) == (0.5, 2)
    assert second["betas"] == [0.8, 0.9]
    assert "lr" not in first


def test_a_schedule_tells_its_constants_and_where_its_functions_are() -> None:
    held = optimizer()
    schedule = torch.optim.lr_scheduler.LambdaLR(held, lambda step: 1.0)
    (told,) = resolved_settings([], [schedule])["schedulers"]
    assert told["class"] == "LambdaLR"
    assert told["functions"][0].startswith(__file__)
    stepped = torch.optim.lr_scheduler.StepLR(held, step_size=5, gamma=0.3)
    (told,) = resolved_settings([], [stepped])["schedulers"]
    assert (told["settings"]["step_size"], told["settings"]["gamma"]) == (5, 0.3)


def test_the_signature_follows_the_settings_but_not_the_rate() -> None:
    held = optimizer()
    before = settings_signature([held])
    held.param_groups[0]["lr"] = 0.05
    assert settings_signature([held]) == before
    held.param_groups[0]["weight_decay"] = 0.4
    assert settings_signature([held]) != before


def test_changes_are_told_once_and_in_sampled_steps() -> None:
    held, table, changed = optimizer(), ParameterTable(), ChangedSettings()
    assert changed.optimizers(table, 0) == []
    table.before_update(held)
    table.after_update(held)
    assert changed.optimizers(table, 1) == [held]
    assert changed.optimizers(table, 2) is None
    held.param_groups[0]["weight_decay"] = 0.4
    assert changed.optimizers(table, FIRST_STEPS + 1) is None
    assert changed.optimizers(table, FIRST_STEPS + EVERY) == [held]


def test_a_new_optimizer_is_told_in_any_step() -> None:
    table, changed = ParameterTable(), ChangedSettings()
    for step, held in enumerate([optimizer(), optimizer()], start=65):
        table.before_update(held)
        table.after_update(held)
        assert held in (changed.optimizers(table, step) or [])
