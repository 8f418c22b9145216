"""The payloads of steps and of parameter tables.

A step is its number (8 bytes), the length of its scalars (4 bytes), the scalars as JSON, and a
matrix of little-endian float64, row by row: a row for each parameter of the last table before it,
an element for each of that table's columns. A step without a matrix ends with its scalars.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossleuth.record import values

_STEP = struct.Struct("<qI")
_INT64 = range(-(2**63), 2**63)
_KEYS = ("names", "sizes", "columns")


@dataclass(frozen=True)
class Table:
    """What the rows and columns of the matrices that follow it mean."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    columns: tuple[str, ...]

    @property
    def matrix_bytes(self) -> int:
        """Length of one matrix."""
        return 8 * len(self.names) * len(self.columns)


def step_number(value: Any) -> int | None:
    """The value as a step number; None if it is not a whole number of 64 bits.

    >>> step_number(np.int32(7)), step_number(7.0), step_number(2**63)
    (7, None, None)
    """
    if type(value) is not int:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            return None
        value = int(value)
    return value if value in _INT64 else None


def step_parts(step: int, scalars: bytes, matrix: bytes) -> tuple[bytes, bytes, bytes]:
    """The parts of a step's payload: number and length of the JSON, the JSON, the matrix."""
    return _STEP.pack(step, len(scalars)), scalars, matrix


def step_layout(payload: memoryview | bytes) -> tuple[int, int, int]:
    """Number of a step, where its JSON begins, and where that ends and its matrix begins.

    >>> step_layout(b"".join(step_parts(-3, b"{}", b"")))
    (-3, 12, 14)
    """
    if len(payload) < _STEP.size:
        raise ValueError("a step without its number")
    step, length = _STEP.unpack_from(payload)
    if _STEP.size + length > len(payload):
        raise ValueError("a step shorter than its scalars")
    return step, _STEP.size, _STEP.size + length


def matrix_bytes(matrix: NDArray[Any], table: Table) -> bytes:
    """The matrix as it is written; ValueError if it is not what the table declares."""
    if not isinstance(matrix, np.ndarray) or matrix.dtype.kind != "f" or matrix.itemsize > 8:
        raise ValueError(f"a matrix of float64 was expected, found {type(matrix).__name__}")
    expected = (len(table.names), len(table.columns))
    if matrix.shape != expected:
        raise ValueError(f"a matrix of {expected} was declared, found {matrix.shape}")
    return matrix.astype("<f8", copy=False).tobytes()


def encode_table(table: Table) -> bytes:
    """A table as JSON; ValueError if a name stands for two things."""
    _refuse_contradiction(table)
    return values.encode_json(
        {"names": table.names, "sizes": table.sizes, "columns": table.columns}
    )[0]


def decode_table(data: bytes) -> Table:
    """The table that `encode_table` wrote; ValueError if it contradicts itself.

    >>> decode_table(b'{"names":["w","b"],"sizes":[64,8],"columns":["norm"]}').matrix_bytes
    16
    """
    found = values.decode_raw(data)
    lists = [found.get(key) for key in _KEYS] if isinstance(found, dict) else [None]
    if not all(isinstance(listed, list) for listed in lists):
        raise ValueError("a table of parameters without its names, sizes or columns")
    table = Table(*(tuple(listed) for listed in lists if listed is not None))
    _refuse_contradiction(table)
    return table


def _refuse_contradiction(table: Table) -> None:
    for labels in (table.names, table.columns):
        if not all(type(label) is str for label in labels):
            raise ValueError("a parameter or column whose name is not a string")
        if len(set(labels)) != len(labels):
            double = next(label for label in labels if labels.count(label) > 1)
            raise ValueError(f"two parameters or columns are called {double[:80]!r}")
    if len(table.sizes) != len(table.names) or not all(type(s) is int for s in table.sizes):
        raise ValueError("as many whole-number sizes as names were expected")
