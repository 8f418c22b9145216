"""Steps and tables, from numbers to bytes and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.record import payloads
from lossleuth.record.payloads import Table

TABLE = Table(("wte", "head"), (64, 8), ("norm", "rms", "max"))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(), st.binary())
def test_a_step_comes_apart_as_it_was_put_together(
    step: int, scalars: bytes, matrix: bytes
) -> None:
    payload = b"".join(payloads.step_parts(step, scalars, matrix))
    number, begin, end = payloads.step_layout(payload)
    assert (number, payload[begin:end], payload[end:]) == (step, scalars, matrix)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_step_or_refused(payload: bytes) -> None:
    try:
        _, begin, end = payloads.step_layout(payload)
    except ValueError:
        return
    assert begin <= end <= len(payload)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (-5, -5),
        (2**63 - 1, 2**63 - 1),
        (2**63, None),
        (np.int64(9), 9),
        (np.uint64(2**64 - 1), None),
        (True, None),
        (3.0, None),
        ("3", None),
        (None, None),
    ],
)
def test_only_whole_numbers_of_64_bits_are_step_numbers(value: Any, expected: int | None) -> None:
    assert payloads.step_number(value) == expected


def test_a_matrix_is_little_endian_float64_row_by_row() -> None:
    matrix = np.array([[1.0, math.nan, -0.0], [5e-324, math.inf, 1e308]])
    data = payloads.matrix_bytes(matrix, TABLE)
    assert data == matrix.astype("<f8").tobytes()
    assert len(data) == TABLE.matrix_bytes
    for same in (np.asfortranarray(matrix), matrix.astype(">f8"), np.tile(matrix, 2)[:, :3]):
        assert payloads.matrix_bytes(same, TABLE) == data


def test_float32_is_widened_exactly() -> None:
    matrix = np.full((2, 3), 0.1, dtype=np.float32)
    expected = matrix.astype(np.float64).tobytes()
    assert payloads.matrix_bytes(matrix, TABLE) == expected


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((3, 2)),
        np.zeros(6),
        np.zeros((2, 3), dtype=complex),
        np.zeros((2, 3), dtype=np.int64),
        np.zeros((2, 3), dtype=np.longdouble),
        np.zeros((2, 3), dtype=object),
        [[0.0] * 3] * 2,
        "matrix",
    ],
    ids=lambda matrix: f"{type(matrix).__name__} {getattr(matrix, 'dtype', '')}",
)
def test_another_matrix_than_was_declared_is_refused(matrix: Any) -> None:
    with pytest.raises(ValueError, match=r"was declared|was expected"):
        payloads.matrix_bytes(matrix, TABLE)


@given(st.lists(st.text(), unique=True), st.lists(st.text(), unique=True))
def test_a_table_comes_back(names: list[str], columns: list[str]) -> None:
    table = Table(tuple(names), tuple(range(len(names))), tuple(columns))
    assert payloads.decode_table(payloads.encode_table(table)) == table


def test_a_parameter_may_be_called_nan() -> None:
    table = Table(("NaN",), (1,), ("Infinity",))
    assert payloads.decode_table(payloads.encode_table(table)) == table


@pytest.mark.parametrize(
    "table",
    [
        Table(("a", "a"), (1, 1), ()),
        Table(("a",), (1,), ("c", "c")),
        Table(("a",), (), ()),
        Table((3,), (1,), ()),  # type: ignore[arg-type]  # the mistake is the test
    ],
)
def test_a_table_that_contradicts_itself_is_refused(table: Table) -> None:
    with pytest.raises(ValueError):
        payloads.encode_table(table)


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"{}",
        b'{"names":["a"],"sizes":[1],"columns":"c"}',
        b'{"names":["a"],"sizes":[1.5],"columns":[]}',
        b'{"names":["a","a"],"sizes":[1,1],"columns":[]}',
        b'{"names":[["a"]],"sizes":[1],"columns":[]}',
        b"?",
    ],
)
def test_a_foreign_table_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        payloads.decode_table(data)
