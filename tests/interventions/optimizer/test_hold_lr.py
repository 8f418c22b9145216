"""The highest rate held."""

from __future__ import annotations

from typing import Any

import torch
from changed_runs import Ran, adamw, trained, with_changes
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, LambdaLR

from lossleuth.interventions.optimizer.hold_lr import HoldLr


def test_without_a_schedule_nothing_changes() -> None:
    assert with_changes(trained, HoldLr()).is_exactly(trained())


def test_a_falling_rate_is_held_where_it_began() -> None:
    for schedule in (lambda o: CosineAnnealingLR(o, 4), lambda o: ExponentialLR(o, 0.1)):

        def falling(schedule: Any = schedule) -> Ran:
            return trained(schedule=schedule)

        assert not falling().is_exactly(trained())
        assert with_changes(falling, HoldLr()).is_exactly(trained())


def test_a_rising_rate_is_left_to_rise() -> None:
    def warmed() -> Ran:
        return trained(schedule=lambda o: LambdaLR(o, lambda n: min(1.0, (n + 1) / 5)))

    assert with_changes(warmed, HoldLr()).is_exactly(warmed())


def test_a_rate_that_is_zero_from_the_start_becomes_the_one_that_was_asked_for() -> None:
    def dead() -> Ran:
        return trained(schedule=lambda o: LambdaLR(o, lambda n: 0.0))

    assert with_changes(dead, HoldLr()).is_exactly(trained())


def test_the_program_still_reads_its_own_rates() -> None:
    seen: list[float] = []

    def reading() -> Ran:
        seen.clear()
        optimizers: list[torch.optim.Optimizer] = []

        def make(parameters: Any) -> torch.optim.Optimizer:
            optimizers.append(adamw(parameters))
            return optimizers[0]

        return trained(
            make=make,
            schedule=lambda o: ExponentialLR(o, 0.5),
            before_step=lambda net: seen.append(optimizers[0].param_groups[0]["lr"]),
        )

    reading()
    bare = list(seen)
    with_changes(reading, HoldLr())
    assert seen == bare
    assert len(set(seen)) == 5
