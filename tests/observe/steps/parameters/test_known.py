"""Rows, names and sizes of the parameters that were updated."""

from __future__ import annotations

import torch

from lossleuth.observe.steps.parameters.known import KnownParameters


def test_rows_are_given_in_the_order_of_first_sight() -> None:
    known = KnownParameters()
    a, b, c = (torch.nn.Parameter(torch.ones(size)) for size in (2, 3, 4))
    assert known.rows_of([a, b]).tolist() == [0, 1]
    assert known.rows_of([c, a]).tolist() == [2, 0]
    assert known.sizes == [2, 3, 4]


def test_the_version_changes_only_when_a_parameter_joins() -> None:
    known = KnownParameters()
    a, b = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    versions = []
    for parameters in ([a], [a], [a, b]):
        known.rows_of(parameters)
        versions.append(known.version)
    assert versions == [1, 1, 2]
    assert known.declared() == (2, known.names, [2, 2])


def test_no_two_parameters_have_one_name() -> None:
    known = KnownParameters()
    models = [torch.nn.Linear(2, 1, bias=False) for _ in range(3)]
    for model in models:
        known.rows_of([model.weight])
    first = known.names[0]
    assert known.names == [first, f"{first} #2", f"{first} #3"]
    assert known.name_of(models[2].weight) == f"{first} #3"
    assert known.name_of(torch.ones(1)) is None
    assert list(known.samples) == known.names
