"""A learning rate that never exceeds a value."""

from __future__ import annotations

from typing import Any

import torch
from changed_runs import Ran, trained, with_changes
from torch.optim.lr_scheduler import LambdaLR

from lossleuth.interventions.optimizer.cap_lr import CapLr


def jumping(factor: float) -> Ran:
    return trained(schedule=lambda o: LambdaLR(o, lambda n: 1.0 if n < 2 else factor))


def test_a_rate_below_the_cap_is_left_to_the_last_bit() -> None:
    assert with_changes(lambda: jumping(0.5), CapLr(1.0)).is_exactly(jumping(0.5))


def test_a_rate_that_jumps_stays_where_it_was() -> None:
    rates: list[float] = []

    def make(parameters: Any) -> torch.optim.Optimizer:
        made = torch.optim.AdamW(parameters, lr=0.01)
        rates.append(made.param_groups[0]["lr"])
        return made

    def run(factor: float) -> Ran:
        return trained(
            make=make, schedule=lambda o: LambdaLR(o, lambda n: 1.0 if n < 2 else factor)
        )

    capped = with_changes(lambda: run(100.0), CapLr(0.01))
    assert capped.distance(run(1.0)) < 1e-6
    assert capped.distance(run(100.0)) > 1e-3


def test_groups_keep_their_ratio_and_the_program_reads_its_own_rates() -> None:
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    groups = [{"params": [p], "lr": lr} for p, lr in zip(parameters, (1.0, 0.5), strict=True)]
    optimizer = torch.optim.SGD(groups)
    cap = CapLr(0.1)
    cap.before_update(optimizer)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.05]
    cap.after_update(optimizer)
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 0.5]
