"""Statistics of every parameter over the steps, for heat maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lossleuth.record.read import Record
from lossleuth.report.document.sampling import bins

# Columns of a heat map, and cells up to which every step is read to fill them.
MAX_COLUMNS = 100
MAX_CELLS = 4_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Matrix:
    """One statistic of every parameter over the steps."""

    parameters: Sequence[str]
    steps: Sequence[int]
    # A row for each parameter.
    values: Floats
    note: str = ""


def matrix_of(record: Record, column: str) -> Matrix:
    """A column of the record, as the maximum of each bin of steps; a sample of very long runs."""
    count, names = len(record), record.parameter_names
    parts = bins(count, MAX_COLUMNS)
    steps = [int(record.steps[part.start]) for part in parts]
    note = ""
    if count > MAX_COLUMNS:
        note = f"Values are maxima over about {count // len(parts)} steps each."
    whole = count * max(1, len(names)) <= MAX_CELLS
    if not whole:
        note = f"About every {count // len(parts)}th step is shown."
    rows = [
        _largest(record.matrix(column, part if whole else slice(part.start, part.start + 1)))
        for part in parts
    ]
    values = np.stack(rows, axis=1) if rows else np.zeros((len(names), 0))
    return Matrix(names, steps, values, note)


def _largest(values: Floats) -> Floats:
    """The maximum of each column, without NaNs; NaN where there is nothing else."""
    there = ~np.isnan(values)
    largest = np.where(there, values, -math.inf).max(axis=0, initial=-math.inf)
    return np.where(there.any(axis=0), largest, math.nan)
