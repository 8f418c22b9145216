"""A record as one wide table: a row for each step, a label for each scalar and matrix cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lossleuth.record.payloads import Table
from lossleuth.record.read import Record, Row


class Wide:
    """The labels of a record and its rows under them.

    The labels are "step", the scalars, then "<column>/<parameter>" for each column and each
    parameter. What a step does not have is None.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self.scalars = record.scalar_names
        self.cells = [
            f"{column}/{parameter}"
            for column in record.columns
            for parameter in record.parameter_names
        ]
        self.labels = _distinct(["step", *self.scalars, *self.cells])
        places = {
            (column, parameter): place
            for place, (column, parameter) in enumerate(
                (column, parameter)
                for column in record.columns
                for parameter in record.parameter_names
            )
        }
        self._places: dict[Table, list[int]] = {
            table: [places[c, name] for name in table.names for c in table.columns]
            for table in record.tables
        }

    def rows(self) -> Iterator[list[Any]]:
        """The steps in order, each with a value or None under every label."""
        for row in self._record.rows():
            yield [row.step, *map(row.scalars.get, self.scalars), *self.cells_of(row)]

    def cells_of(self, row: Row) -> list[float | None]:
        """The cells of one step's matrix, in the order of their labels."""
        found: list[float | None] = [None] * len(self.cells)
        if row.table is not None and row.matrix is not None:
            values = row.matrix.ravel().tolist()
            for place, value in zip(self._places[row.table], values, strict=True):
                found[place] = value
        return found


def _distinct(labels: list[str]) -> list[str]:
    """The labels, with a number after those that came before.

    >>> _distinct(["step", "norm/w", "norm/w"])
    ['step', 'norm/w', 'norm/w (2)']
    """
    taken: set[str] = set()
    found = []
    for label in labels:
        chosen, number = label, 2
        while chosen in taken:
            chosen = f"{label} ({number})"
            number += 1
        taken.add(chosen)
        found.append(chosen)
    return found
