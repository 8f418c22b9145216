"""Optimizers and schedulers that a program made."""

from __future__ import annotations

import torch

from lossleuth.observe.steps.instances import Instances


def test_those_that_are_not_used_are_idle_and_those_that_are_gone_are_forgotten() -> None:
    made = Instances()
    used, idle = (torch.optim.SGD([torch.ones(1)], lr=0.1) for _ in range(2))
    made.optimizers.update((used, idle))
    assert made.idle_besides([used]) == ["SGD"]
    del idle
    assert made.idle_besides([used]) == []


def test_a_schedule_says_how_often_it_was_stepped() -> None:
    made = Instances()
    optimizer = torch.optim.SGD([torch.ones(1)], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    made.schedulers.add(schedule)
    optimizer.step()
    schedule.step()
    assert made.schedules() == [["StepLR", 1]]


def test_a_schedule_with_an_end_says_where_it_is() -> None:
    made = Instances()
    optimizer = torch.optim.SGD([torch.ones(1)], lr=0.1)
    endless = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=70)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=2, steps_per_epoch=25)
    made.schedulers.update((endless, cosine, cycle))
    optimizer.step()
    for schedule in (endless, cosine, cycle):
        schedule.step()
    assert sorted(made.planned()) == [[1, 50], [1, 70]]
