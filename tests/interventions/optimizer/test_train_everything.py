"""Everything that is used is trained."""

from __future__ import annotations

from typing import Any

import torch
from changed_runs import Ran, trained, with_changes

from lossleuth.interventions.optimizer.train_everything import TrainEverything


def test_what_was_frozen_is_trained() -> None:
    nets: list[Any] = []
    starts: list[list[torch.Tensor]] = []

    def frozen() -> Ran:
        """Most of the net is frozen, and the optimizer has the rest."""

        def plant(net: Any) -> None:
            nets.append(net)
            starts.append([p.detach().clone() for p in net.parameters()])
            for parameter in list(net.parameters())[1:]:
                parameter.requires_grad_(False)

        return trained(
            plant=plant, held=lambda net: [p for p in net.parameters() if p.requires_grad]
        )

    def moved() -> list[bool]:
        pairs = zip(nets[-1].parameters(), starts[-1], strict=True)
        return [not torch.equal(now, before) for now, before in pairs]

    frozen()
    assert moved()[0] and not any(moved()[1:])
    with_changes(frozen, TrainEverything())
    assert all(moved())


def test_a_net_that_is_trained_as_a_whole_stays_as_it_is() -> None:
    assert with_changes(trained, TrainEverything()).is_exactly(trained())


def test_a_teacher_without_gradients_stays_frozen() -> None:
    teacher = torch.nn.Linear(2, 2).requires_grad_(False)

    def run() -> Ran:
        with torch.no_grad():
            teacher(torch.ones(1, 2))
        return trained(1)

    with_changes(run, TrainEverything())
    assert not any(p.requires_grad for p in teacher.parameters())
