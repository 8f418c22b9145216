"""Statistics of parameters over the steps."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from made_runs import record

from lossleuth.record.read import Record
from lossleuth.report.document.matrix import MAX_COLUMNS, Matrix, matrix_of


def gradients(directory: Path) -> Matrix:
    with Record.open(directory) as opened:
        return matrix_of(opened, "grad_rms")


def test_a_column_is_the_largest_of_its_steps(tmp_path: Path) -> None:
    record(tmp_path, [1.0] * (7 * MAX_COLUMNS))
    matrix = gradients(tmp_path)
    assert matrix.values.shape == (2, MAX_COLUMNS)
    assert np.allclose(matrix.values, 7e-3)
    assert "7 steps" in matrix.note


def test_steps_without_a_matrix_are_gaps(tmp_path: Path) -> None:
    record(tmp_path, [1.0, 1.0, 1.0], every=2)
    cells = gradients(tmp_path).values[0]
    assert [math.isnan(x) for x in cells] == [False, True, False]
