"""An epsilon that is no larger than a value."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from changed_runs import Ran, adamw, sgd, trained, with_changes

from lossleuth.interventions.optimizer.cap_epsilon import CapEpsilon

KINDS = (
    torch.optim.AdamW,
    torch.optim.Adam,
    torch.optim.NAdam,
    torch.optim.RMSprop,
    torch.optim.Adagrad,
)


def run(epsilon: float, kind: Any = torch.optim.AdamW, **settings: Any) -> Ran:
    return trained(make=lambda p: kind(p, lr=0.01, eps=epsilon, **settings))


@pytest.mark.parametrize("kind", KINDS)
def test_it_equals_the_run_with_that_epsilon_to_the_last_bit(kind: Any) -> None:
    capped = with_changes(lambda: run(1.0, kind), CapEpsilon(1e-8))
    assert capped.is_exactly(run(1e-8, kind))
    assert capped.distance(run(1.0, kind)) > 1e-3


@pytest.mark.parametrize("settings", [{"fused": True}, {"foreach": True}, {"capturable": False}])
def test_it_acts_on_every_implementation(settings: Any) -> None:
    capped = with_changes(lambda: run(1.0, **settings), CapEpsilon(1e-8))
    assert capped.is_exactly(run(1e-8, **settings))


@pytest.mark.parametrize("value", [1e-3, 1.0, math.inf])
def test_a_value_that_is_not_below_the_programs_own_changes_no_bit(value: float) -> None:
    bare = run(1e-3)
    assert with_changes(lambda: run(1e-3), CapEpsilon(value)).is_exactly(bare)
    assert not with_changes(lambda: run(1e-3), CapEpsilon(1e-8)).is_exactly(bare)


@pytest.mark.parametrize("make", [adamw, sgd])
def test_torchs_default_and_a_rule_without_epsilon_are_left_as_they_are(make: Any) -> None:
    bare = trained(make=make)
    assert with_changes(lambda: trained(make=make), CapEpsilon(1e-8)).is_exactly(bare)


def test_two_numbers_with_a_meaning_of_their_own_are_left_alone() -> None:
    def factored() -> Ran:
        return trained(make=lambda p: torch.optim.Adafactor(p, lr=0.01))

    assert with_changes(factored, CapEpsilon(1e-30)).is_exactly(factored())


def test_the_program_still_reads_its_own_setting() -> None:
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    groups = [{"params": [weights[0]], "eps": 0.5}, {"params": [weights[1]], "eps": 1e-10}]
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    change = CapEpsilon(1e-8)
    change.before_update(optimizer)
    assert [group["eps"] for group in optimizer.param_groups] == [1e-8, 1e-10]
    change.after_update(optimizer)
    assert [group["eps"] for group in optimizer.param_groups] == [0.5, 1e-10]
