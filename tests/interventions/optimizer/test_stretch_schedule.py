"""The schedule stretched."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from changed_runs import Ran, adamw, sgd, trained, with_changes
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR, OneCycleLR

from lossleuth.interventions.optimizer.stretch_schedule import StretchSchedule


def falling(every: int) -> Ran:
    """The rate is halved after so many updates."""
    return trained(8, schedule=lambda o: LambdaLR(o, lambda n: 0.5 ** (n // every)))


def test_without_a_schedule_or_with_factor_one_nothing_changes() -> None:
    assert with_changes(trained, StretchSchedule(3)).is_exactly(trained())
    assert with_changes(lambda: falling(1), StretchSchedule(1)).is_exactly(falling(1))


@pytest.mark.parametrize("factor", [2, 3])
def test_a_schedule_becomes_the_slower_one(factor: int) -> None:
    assert falling(1).distance(falling(factor)) > 1e-3
    assert with_changes(lambda: falling(1), StretchSchedule(factor)).is_exactly(falling(factor))


def by_hand(factor: int) -> Ran:
    """A schedule of the program's own, that writes to both groups of its optimizer."""
    optimizers: list[torch.optim.Optimizer] = []

    def kept(parameters: Any) -> torch.optim.Optimizer:
        optimizers.append(sgd(parameters))
        return optimizers[-1]

    updates = itertools.count()

    def schedule(_net: Any) -> None:
        at = next(updates) // factor
        for index, group in enumerate(optimizers[-1].param_groups):
            group["lr"] = (1 + index) / (1 + at)

    return trained(
        7,
        make=kept,
        before_step=schedule,
        held=lambda net: [
            {"params": list(net.table.parameters())},
            {"params": list(net.head.parameters())},
        ],
    )


def test_a_schedule_by_hand_is_stretched_in_every_group() -> None:
    assert by_hand(1).distance(by_hand(2)) > 1e-2
    assert with_changes(lambda: by_hand(1), StretchSchedule(2)).is_exactly(by_hand(2))


def test_a_rate_that_is_a_tensor_is_remembered_by_value() -> None:
    def scheduled(every: int) -> Ran:
        def make(parameters: Any) -> torch.optim.Optimizer:
            return torch.optim.AdamW(parameters, lr=torch.tensor(0.01))

        return trained(make=make, schedule=lambda o: LambdaLR(o, lambda n: 0.5 ** (n // every)))

    assert not scheduled(1).is_exactly(scheduled(2))
    assert with_changes(lambda: scheduled(1), StretchSchedule(2)).is_exactly(scheduled(2))


def test_two_optimizers_have_each_their_own_past() -> None:
    def alternating(factor: int) -> Ran:
        a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        one, two = torch.optim.SGD([a], lr=0.1), torch.optim.SGD([b], lr=0.2)
        for step in range(6):
            one.param_groups[0]["lr"] = 0.1 / (1 + step // factor)
            two.param_groups[0]["lr"] = 0.01 * (1 + step // factor)
            one.zero_grad()
            two.zero_grad()
            (a * b - 3).square().sum().backward()
            one.step()
            two.step()
        return Ran([], torch.cat([a, b]).detach())

    assert alternating(1).distance(alternating(2)) > 1e-3
    assert with_changes(lambda: alternating(1), StretchSchedule(2)).is_exactly(alternating(2))


def test_the_program_still_reads_its_own_rates() -> None:
    seen: list[float] = []

    def reading(schedule: Any) -> Ran:
        seen.clear()
        optimizers: list[torch.optim.Optimizer] = []

        def make(parameters: Any) -> torch.optim.Optimizer:
            optimizers.append(adamw(parameters))
            return optimizers[0]

        return trained(
            make=make,
            schedule=schedule,
            before_step=lambda net: seen.append(optimizers[0].param_groups[0]["lr"]),
        )

    # Some compute the next rate from the last.
    for schedule in (lambda o: ExponentialLR(o, 0.5), lambda o: OneCycleLR(o, 0.1, 8)):
        reading(schedule)
        bare = list(seen)
        with_changes(lambda schedule=schedule: reading(schedule), StretchSchedule(2))
        assert seen == bare
        assert len(set(seen)) == 5


def test_rates_of_the_future_are_refused() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        StretchSchedule(0.5)
