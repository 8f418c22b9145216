"""Numbers on axes and in texts."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from lossleuth.report.document.numbers import format_number, powers, ticks

SIZES = st.floats(-1e12, 1e12, allow_nan=False)


@given(SIZES, SIZES)
def test_ticks_are_few_rise_and_lie_between(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    if high - low > 1e-9 * max(abs(low), abs(high), 1e-300):
        found = ticks(low, high)
        span = high - low
        assert 1 <= len(found) <= 12
        assert found == sorted(found)
        assert low - 1e-6 * span <= found[0]
        assert found[-1] <= high + 1e-6 * span


def test_an_empty_span_has_one_tick() -> None:
    assert ticks(2.0, 2.0) == [2.0]


@given(st.floats(1e-200, 1e100), st.floats(1.0, 1e100))
def test_powers_are_few_and_never_none(low: float, factor: float) -> None:
    assert 1 <= len(powers(low, low * factor)) <= 8


@given(st.floats())
def test_every_number_is_shown_and_what_is_none_says_so(value: float) -> None:
    text = format_number(value)
    if math.isfinite(value):
        assert math.isclose(float(text), value, rel_tol=1e-3, abs_tol=1e-320) or abs(value) > 1e308
    else:
        assert text in ("NaN", "inf", "-inf")
