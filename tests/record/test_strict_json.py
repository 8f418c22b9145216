"""JSON that every parser accepts."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.record import strict_json

numbers = st.floats(allow_nan=True, allow_infinity=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def refuse(token: str) -> Any:
    raise AssertionError(f"{token} is not JSON")


@given(values)
def test_any_value_gives_json_without_foreign_tokens(value: Any) -> None:
    text = strict_json.dumps(value)
    assert json.loads(text, parse_constant=refuse) == json.loads(text)


@given(numbers)
def test_a_number_comes_back_exactly(value: float) -> None:
    back = strict_json.number(json.loads(strict_json.dumps(value)))
    assert math.copysign(1, back) == math.copysign(1, value) or math.isnan(value)
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_another_string_is_not_a_number() -> None:
    with pytest.raises(KeyError):
        strict_json.number("1e5")
