"""Settings as they are."""

from __future__ import annotations

import torch

from lossleuth.observe.resolved import resolved_settings, settings_signature


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
