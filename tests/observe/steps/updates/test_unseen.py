"""When to look for updates that no hook tells of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from loops import read, watching

from lossleuth.observe.steps.parameters.table import ParameterTable
from lossleuth.observe.steps.updates.unseen import MAX_BACKWARDS_WITHOUT_STEP, UnseenUpdates


def a_weight() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.ones(3))


def test_without_an_optimizer_they_are_looked_for_at_once() -> None:
    table, weight = ParameterTable(), a_weight()
    unseen = UnseenUpdates(table, [])
    assert unseen.are_looked_for
    unseen.backward_begins([weight.sum()])
    assert len(table.parameters.names) == 1
    assert unseen.resting is None


def test_with_one_they_are_looked_for_after_some_patience() -> None:
    table, weight = ParameterTable(), a_weight()
    unseen = UnseenUpdates(table, [torch.optim.SGD([weight], lr=0.1)])
    for _ in range(MAX_BACKWARDS_WITHOUT_STEP):
        unseen.backward_begins([weight.sum()])
    assert table.parameters.names == []
    unseen.backward_begins([weight.sum()])
    assert len(table.parameters.names) == 1


def test_an_update_that_is_told_begins_patience_anew() -> None:
    table, weight = ParameterTable(), a_weight()
    unseen = UnseenUpdates(table, [torch.optim.SGD([weight], lr=0.1)])
    for _ in range(MAX_BACKWARDS_WITHOUT_STEP):
        unseen.backward_begins([weight.sum()])
    unseen.optimizer_updated()
    unseen.backward_begins([weight.sum()])
    assert table.parameters.names == []


def test_an_update_that_is_told_ends_the_search_unless_others_are_not() -> None:
    table, weight = ParameterTable(), a_weight()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    unseen = UnseenUpdates(table, [optimizer])
    table.before_update(optimizer)
    table.after_update(optimizer)
    assert not unseen.are_looked_for
    table.follow(optimizer)
    assert unseen.are_looked_for


def moved(folder: Path, change: Any) -> Any:
    """What the record of a run without an update says of its parameters."""
    weight = a_weight()
    with watching(folder):
        optimizer = torch.optim.SGD([weight, a_weight()], lr=0.1)
        for _ in range(3):
            weight.sum().backward()
            change(weight)
    assert optimizer.param_groups
    (event,) = read(folder).events("unfinished")
    return event.data["moved"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [(lambda _: None, [0, 2]), (lambda weight: weight.data.mul_(1.5), [1, 2])],
    ids=["still", "moved"],
)
def test_the_record_says_whether_parameters_of_an_idle_optimizer_have_moved(
    tmp_path: Path, change: Any, expected: list[int]
) -> None:
    assert moved(tmp_path / "run", change) == expected
