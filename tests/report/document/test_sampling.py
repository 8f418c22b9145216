"""Fewer points, none that matters lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.report.document.sampling import bins, sampled

VALUES = st.lists(st.floats(width=32), min_size=1, max_size=600)


@given(VALUES, st.integers(8, 200))
def test_minimum_maximum_and_gaps_are_kept(values: list[float], most: int) -> None:
    ys = np.array(values)
    found = sampled(np.arange(len(ys), dtype=np.float64), ys, most)
    assert len(found.xs) == len(found.ys) <= most
    assert (np.diff(found.xs) > 0).all()
    finite = ys[np.isfinite(ys)]
    if len(finite):
        kept = found.ys[np.isfinite(found.ys)]
        assert (kept.min(), kept.max()) == (finite.min(), finite.max())
    assert np.isfinite(ys).all() == np.isfinite(found.ys).all()
    assert found.reduced == (len(ys) > most)


def test_every_bunch_keeps_its_spike() -> None:
    ys = np.zeros(10_000)
    ys[::100] = np.arange(100) + 1.0
    found = sampled(np.arange(10_000.0), ys, 400)
    assert set(range(1, 101)) <= set(found.ys.tolist())


def test_the_first_and_the_last_step_stay() -> None:
    found = sampled(np.arange(5000.0), np.random.default_rng(0).normal(size=5000), 100)
    assert (found.xs[0], found.xs[-1]) == (0.0, 4999.0)


@given(st.integers(0, 1000), st.integers(1, 100))
def test_bunches_hold_every_step_once(count: int, most: int) -> None:
    parts = bins(count, most)
    assert [i for part in parts for i in range(count)[part]] == list(range(count))
    assert len(parts) <= most
    assert all(part.stop > part.start for part in parts)
