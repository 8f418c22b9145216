"""Values come back exactly, or are left out and named."""

from __future__ import annotations

import math
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recorded import run_script, strict

from lossleuth.record import values

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters()).filter(lambda s: s not in values.NON_FINITE),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def identical(a: Any, b: Any) -> bool:
    """Same types and values, NaN and the sign of zero included."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isnan(a) == math.isnan(b) and (a == b or math.isnan(a)) and sign(a) == sign(b)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(identical(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(identical, a, b))
    return type(a) is type(b) and bool(a == b)


def sign(value: float) -> float:
    return 0.0 if math.isnan(value) else math.copysign(1, value)


@given(st.dictionaries(st.text(), plain, max_size=4))
@example({"a": -0.0, "b": 5e-324, "c": 1e308, "d": 2**53 + 1, "e": -(2**200)})
@example({"lone": "\udce9", "\ud800": math.nan, "list": [math.inf, {"x": -math.inf}]})
def test_plain_values_come_back_exactly_through_strict_json(value: dict[str, Any]) -> None:
    encoded, left_out = values.encode_json(value)
    assert left_out == []
    strict(encoded)
    assert identical(values.decode_json(encoded), value)


def test_numbers_of_numpy_and_other_mappings_are_plain_values() -> None:
    value = MappingProxyType(
        {
            "f32": np.float32(0.1),
            "f64": np.float64("nan"),
            "i": np.int64(2**62),
            "b": np.bool_(True),
            "list": np.array([1.5, -np.inf]),
            "tuple": (1, OrderedDict(a=np.float16(2))),
            7: "whole-number key",
        }
    )
    encoded, left_out = values.encode_json(value)
    assert left_out == []
    expected = {
        "f32": float(np.float32(0.1)),
        "f64": math.nan,
        "i": 2**62,
        "b": True,
        "list": [1.5, -math.inf],
        "tuple": [1, {"a": 2.0}],
        "7": "whole-number key",
    }
    assert identical(values.decode_json(encoded), expected)


@pytest.mark.parametrize(
    "value",
    [object(), {1}, b"x", 1j, Path("x"), np.longdouble(1) / 3, np.array(1j), 10**5000, len],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_left_out_alone_and_named(value: Any) -> None:
    encoded, left_out = values.encode_json({"loss": 1.5, "odd": [value]})
    note = {"unrecorded": type(value).__name__}
    assert strict(encoded) == {"loss": 1.5, "odd": [note]}
    assert left_out == [f"odd is of type {type(value).__name__}"]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_what_a_reader_deep_in_its_stack_could_not_read_is_not_written() -> None:
    assert strict(values.encode_json({"a": nested(90)})[0]) == {"a": nested(90)}
    for depth in (101, 900, 100_000):
        with pytest.raises(ValueError, match="nested deeper than 100"):
            values.encode_json({"a": nested(depth)})


def test_many_brackets_side_by_side_are_not_deep() -> None:
    value = {"rows": [[i] for i in range(500)]}
    assert strict(values.encode_json(value)[0]) == value


def test_a_value_that_holds_itself_is_refused_at_once() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop["b"] = loop
    with pytest.raises(ValueError, match="nested deeper"):
        values.encode_json(loop)


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"a":NaN}', b"\xff\xfe", b"[" * 100_000, b'{"a":' + b"1" * 9999 + b"}"]
)
def test_what_is_not_strict_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        values.decode_json(data)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (1.5, 1.5),
        (2**53 + 1, 2.0**53),
        (10**400, math.inf),
        ("Infinity", math.inf),
        ("1e5", None),
        (None, None),
        ({"unrecorded": "set"}, None),
    ],
)
def test_the_number_behind_a_raw_value(raw: Any, expected: float | None) -> None:
    assert values.number(raw) == expected


def test_the_module_needs_no_torch() -> None:
    program = "import sys, lossleuth.record.write, lossleuth.record.export; print(*sys.modules)"
    loaded = set(run_script(program).stdout.split())
    assert "lossleuth.record.write" in loaded
    assert {"torch", "pyarrow", "tensorboard", "wandb"} & loaded == set()
