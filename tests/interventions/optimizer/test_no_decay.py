"""Weight decay switched off."""

from __future__ import annotations

from typing import Any

import torch
from changed_runs import Ran, trained, with_changes

from lossleuth.interventions.optimizer.no_decay import NoDecay


def decaying(decay: float) -> Ran:
    def make(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=0.01, weight_decay=decay)

    return trained(make=make)


def test_a_run_with_decay_becomes_the_one_without() -> None:
    assert not decaying(0.5).is_exactly(decaying(0.0))
    assert with_changes(lambda: decaying(0.5), NoDecay()).is_exactly(decaying(0.0))


def test_without_decay_nothing_changes() -> None:
    assert with_changes(lambda: decaying(0.0), NoDecay()).is_exactly(decaying(0.0))


def test_the_program_still_reads_its_own_setting() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1, weight_decay=0.3)
    change = NoDecay()
    change.before_update(optimizer)
    assert optimizer.param_groups[0]["weight_decay"] == 0
    change.after_update(optimizer)
    assert optimizer.param_groups[0]["weight_decay"] == 0.3
