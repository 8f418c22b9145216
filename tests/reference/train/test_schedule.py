"""The learning rate."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from lossleuth.reference.train.schedule import learning_rate

runs = st.tuples(st.integers(0, 50), st.integers(1, 300), st.floats(0, 1))


@given(runs)
def test_the_rate_is_positive_until_the_floor_and_never_above_the_peak(
    run: tuple[int, int, float],
) -> None:
    warmup, steps, floor = run
    rates = [
        learning_rate(s, peak=2.0, warmup=warmup, steps=steps, floor=floor) for s in range(steps)
    ]
    assert rates[0] > 0
    assert all(0 <= rate <= 2.0 for rate in rates)
    rising = rates[: min(warmup, steps)]
    falling = rates[warmup:]
    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)


def test_it_starts_above_zero_peaks_after_warmup_and_ends_at_the_floor() -> None:
    def rate(step: int) -> float:
        return learning_rate(step, peak=1e-3, warmup=10, steps=100, floor=0.1)

    assert math.isclose(rate(0), 1e-4)
    assert rate(9) == rate(10) == 1e-3
    assert math.isclose(rate(99), 1e-4)
    assert math.isclose(rate(1000), 1e-4)
