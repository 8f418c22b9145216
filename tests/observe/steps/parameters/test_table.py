"""Rows of parameters."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch

from lossleuth.observe.steps.parameters.readings import READINGS
from lossleuth.observe.steps.parameters.table import MOST_GROUPS, ParameterTable


def stepped(table: ParameterTable, optimizer: torch.optim.Optimizer) -> None:
    table.before_update(optimizer)
    optimizer.step()
    table.after_update(optimizer)


def column(matrix: np.ndarray[tuple[int, int], np.dtype[np.float64]], name: str) -> list[float]:
    return list(matrix[:, READINGS.index(name)])


def taken(table: ParameterTable) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    (matrix,) = table.matrices_of([table.take_measured()], len(table.parameters.names))
    return matrix


def weights(*sizes: int) -> list[torch.nn.Parameter]:
    made = [torch.nn.Parameter(torch.ones(size)) for size in sizes]
    for weight in made:
        weight.grad = torch.ones_like(weight)
    return made


def test_parameters_of_several_optimizers_share_one_table() -> None:
    a, b, c = weights(2, 3, 4)
    table = ParameterTable()
    stepped(table, torch.optim.SGD([a, b], lr=0.5))
    assert table.parameters.version == 1
    stepped(table, torch.optim.Adam([c], lr=0.5))
    assert table.parameters.version == 2
    assert table.parameters.sizes == [2, 3, 4]
    matrix = taken(table)
    assert column(matrix, "update_rms") == pytest.approx([0.5, 0.5, 0.5])
    assert column(matrix, "age")[2] == 1
    assert np.isnan(taken(table)).all()


def test_an_optimizer_made_anew_keeps_the_rows() -> None:
    held = weights(2, 3)
    table = ParameterTable()
    for _ in range(5):
        optimizer = torch.optim.Adam(held, lr=0.1)
        stepped(table, optimizer)
        assert column(taken(table), "age") == [1, 1]
    assert table.parameters.version == 1
    assert len(table.parameters.names) == 2


def test_models_that_were_thrown_away_are_not_kept_alive() -> None:
    table = ParameterTable()
    references = []
    for _ in range(MOST_GROUPS + 3):
        (weight,) = weights(2)
        references.append(weakref.ref(weight))
        stepped(table, torch.optim.SGD([weight], lr=0.1))
        del weight
    gc.collect()
    assert sum(reference() is not None for reference in references) <= MOST_GROUPS


def test_an_update_by_hand_is_seen_by_what_moved_and_only_once() -> None:
    (weight,) = weights(3)
    table = ParameterTable()
    table.note_roots([weight.sum()])
    table.before_hand_update()
    assert table.hand_updates() == []
    table.before_hand_update()
    weight.data = weight.data - 0.25
    assert table.hand_updates() == ["by hand"]
    assert column(taken(table), "update_rms") == pytest.approx([0.25])
    assert table.hand_updates() == []


def test_a_missing_gradient_is_missing_and_not_zero() -> None:
    a, b = weights(2, 2)
    b.grad = None
    table = ParameterTable()
    stepped(table, torch.optim.SGD([a, b], lr=0.5))
    assert np.isnan(column(taken(table), "grad_rms")).tolist() == [
        False,
        True,
    ]
