"""The columns of the results."""

from __future__ import annotations

from lossleuth.native.columns import COLUMNS, GRADIENT, UPDATE


def test_every_column_belongs_to_one_of_the_two_passes() -> None:
    assert COLUMNS[GRADIENT] + COLUMNS[UPDATE] == COLUMNS
    assert all(name.startswith("gradient_") for name in COLUMNS[GRADIENT])
    assert not any(name.startswith("gradient_") for name in COLUMNS[UPDATE])
