"""Derivatives from values: the bound holds, and is small where the function is smooth."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossleuth.gradcheck.differences import (
    STEPS_TO_CONFIRM,
    STEPS_TO_MEASURE,
    Derivative,
    derivative,
)

numbers = st.floats(-1e4, 1e4, allow_subnormal=False)


def error_of(found: Derivative, true: float) -> float:
    return abs(found.value - true)


@pytest.mark.parametrize(
    ("function", "true", "small"),
    [
        (math.exp, 1.0, 1e-11),
        (lambda t: math.sin(50 * t), 50.0, 1e-9),
        (lambda t: t**3, 0.0, 1e-15),
        (lambda t: 1e8 + t, 1.0, 1e-5),
        (lambda t: 1e-30 * math.exp(t), 1e-30, 1e-41),
        (lambda t: 3.0, 0.0, 1e-12),
    ],
    ids=["exp", "fast sine", "cube", "large offset", "tiny", "constant"],
)
def test_smooth_functions_have_a_small_bound_that_holds(
    function: Callable[[float], float], true: float, small: float
) -> None:
    found = derivative(function)
    assert error_of(found, true) <= found.bound < small


@settings(deadline=None, max_examples=60)
@given(
    coefficients=st.lists(numbers, min_size=2, max_size=9),
    exponent=st.integers(-3, 3),
    scale=st.sampled_from([0.01, 0.1, 1.0, 10.0]),
)
def test_the_bound_holds_for_polynomials(
    coefficients: list[float], exponent: int, scale: float
) -> None:
    exact = [Fraction(c) * Fraction(4) ** (k * exponent) for k, c in enumerate(coefficients)]

    def polynomial(t: float) -> float:
        return float(sum(c * Fraction(t) ** k for k, c in enumerate(exact)))

    found = derivative(polynomial, scale=scale)
    assert error_of(found, float(exact[1])) <= found.bound


@settings(deadline=None, max_examples=100)
@given(frequency=st.floats(0.01, 300), phase=st.floats(0, 6.3), size=st.floats(1e-6, 1e6))
def test_the_bound_holds_for_waves(frequency: float, phase: float, size: float) -> None:
    found = derivative(lambda t: size * math.sin(frequency * t + phase), epsilon=2.0**-50)
    true = size * frequency * math.cos(phase)
    assert error_of(found, true) <= found.bound + 1e-13 * abs(size * frequency)


@settings(deadline=None, max_examples=60)
@given(
    # Slower than that, values can be below float32's smallest, where rounding is not relative.
    rate=st.floats(-20, 20).map(lambda rate: rate if abs(rate) > 1e-3 else 0.0),
    size=st.floats(0.1, 1e5),
    offset=st.floats(-100, 100),
)
def test_values_rounded_to_float32_keep_the_bound(rate: float, size: float, offset: float) -> None:
    def rounded(t: float) -> float:
        # Where the offset takes the size away, a difference would be rounded in float64 first.
        return float(np.float32(size * math.expm1(rate * t) + (size + offset)))

    found = derivative(rounded, epsilon=2.0**-23)
    assert error_of(found, rate * size) <= found.bound


def test_float32_rounding_leaves_four_digits() -> None:
    found = derivative(lambda t: float(np.float32(math.exp(t))), epsilon=2.0**-23)
    assert found.bound < 1e-3


@pytest.mark.parametrize("jump", [1.0, 1e-3, 1e3])
@pytest.mark.parametrize("smooth", [0.0, 5.0])
def test_a_kink_is_bounded_by_the_slopes_of_its_sides(jump: float, smooth: float) -> None:
    found = derivative(lambda t: jump * abs(t) + smooth * math.sin(t))
    assert found.bound >= 0.999 * jump


def test_a_kink_on_one_side_of_zero_is_no_hindrance() -> None:
    found = derivative(lambda t: math.exp(t) + 7 * max(0.0, t - 0.01))
    assert error_of(found, 1.0) <= found.bound < 1e-7


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_noise_that_nobody_announced_widens_the_bound(seed: int, size: float) -> None:
    noise = random.Random(seed)
    found = derivative(lambda t: math.sin(3 * t) + size * noise.uniform(-1, 1))
    assert error_of(found, 3.0) <= found.bound
    assert found.bound > size / 10


@settings(deadline=None, max_examples=60)
@given(rate=st.floats(0.5, 5), digits=st.integers(3, 5))
def test_stairs_that_nobody_announced_widen_the_bound(rate: float, digits: int) -> None:
    # Between two stairs every small slope is 0, and all of them agree.
    found = derivative(lambda t: round(math.exp(rate * t), digits))
    assert error_of(found, rate) <= found.bound


def test_slopes_of_two_large_steps_that_agree_by_chance_convince_nobody() -> None:
    # The largest two steps, 0.25 and 0.25 / 1.6, see the same slope of this wave.
    def gap(w: float) -> float:
        return math.sin(w / 4) / (w / 4) - math.sin(w / 6.4) / (w / 6.4)

    low, high = 20.0, 30.0
    assert gap(low) * gap(high) < 0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gap(low) * gap(middle) > 0 else (low, middle)
    found = derivative(lambda t: math.sin(low * t))
    assert abs(found.sweep[0][1] - found.sweep[1][1]) < 1e-9
    assert error_of(found, low) <= found.bound < 1e-6


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_number_has_no_derivative(value: float) -> None:
    assert derivative(lambda t: value).bound == math.inf
    assert derivative(lambda t: value if t == 0 else t).bound == math.inf
    assert derivative(lambda t: value if abs(t) < 1e-3 else t).bound == math.inf


def test_steps_out_of_the_domain_are_left_out() -> None:
    found = derivative(lambda t: math.log(0.05 + t) if t > -0.05 else math.nan)
    assert error_of(found, 20.0) <= found.bound < 1e-3


def test_the_sweep_falls_and_rises() -> None:
    sweep = derivative(math.exp).sweep
    errors = [abs(slope - 1) for _, slope in sweep]
    lowest = errors.index(min(errors))
    assert [step for step, _ in sweep] == sorted((step for step, _ in sweep), reverse=True)
    assert errors[0] > 1e4 * errors[lowest] and max(errors[-3:]) > 1e3 * errors[lowest]
    assert 3 < lowest < len(errors) - 3


@pytest.mark.parametrize("some", [STEPS_TO_MEASURE, STEPS_TO_CONFIRM])
def test_few_steps_give_a_slope_whose_bound_holds(some: slice) -> None:
    asked = []

    def wave(t: float) -> float:
        asked.append(t)
        return math.sin(3 * t) + math.exp(t)

    found = derivative(wave, scale=0.1, some=some)
    assert len(asked) == 1 + 2 * (some.stop - some.start)
    assert abs(found.value - 4) <= found.smooth_bound < 1e-4


def test_few_steps_see_a_kink_and_the_bound_of_smooth_functions_does_not() -> None:
    found = derivative(lambda t: abs(t) + t, some=STEPS_TO_MEASURE)
    assert found.bound >= 1
    assert found.smooth_bound < 1e-6
