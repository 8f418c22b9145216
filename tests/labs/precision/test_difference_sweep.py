"""Finite differences: why one step says 40 % and another 0.02 %."""

from __future__ import annotations

import math

import pytest
import torch

from lossleuth.labs.precision.difference_sweep import MAX_ENTRIES, Sweep, sweep_of


@pytest.fixture(scope="module", params=["float32", "float64"])
def sweep(request: pytest.FixtureRequest) -> Sweep:
    logits = torch.randn(34, generator=torch.Generator().manual_seed(0))
    return sweep_of(logits, 5, request.param)


def test_errors_stay_within_rounding_and_truncation(sweep: Sweep) -> None:
    for point in sweep.points:
        # Two values, each off by a last digit or two, of a quotient of their difference; the
        # quotient's error is never much above 1, since values that do not change give 0.
        most = 4 * point.rounding + 1.1 * point.truncation
        assert point.median <= max(most, 2.0 * (point.rounding > 1))
        assert point.median <= point.worst


def test_the_curve_falls_and_rises_again_where_the_two_cross(sweep: Sweep) -> None:
    errors = [point.median for point in sweep.points]
    assert errors[0] > 100 * sweep.best.median
    assert errors[-1] > 10 * sweep.best.median
    assert sweep.crossing / 10 <= sweep.best.epsilon <= sweep.crossing * 10


def test_the_founding_figures_are_met() -> None:
    logits = torch.randn(34, generator=torch.Generator().manual_seed(0))
    narrow, wide = (sweep_of(logits, 5, name) for name in ("float32", "float64"))
    assert 0.1 < narrow.at(1e-5).median < 1.0
    assert narrow.at(1e-2).median < 1e-3
    assert wide.at(1e-5).median < 1e-8 and wide.at(1e-5).worst < 1e-6


def test_a_wrong_reference_shows_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: losses of another position, whose derivative is another one."""
    from lossleuth.labs.precision import difference_sweep

    real = difference_sweep._losses
    monkeypatch.setattr(difference_sweep, "_losses", lambda *a: 1.5 * real(*a))
    logits = torch.randn(34, generator=torch.Generator().manual_seed(0))
    found = sweep_of(logits, 5, "float64")
    assert min(point.median for point in found.points) > 0.4


def test_differences_with_a_bound_tell_the_slope(sweep: Sweep) -> None:
    assert abs(sweep.told - sweep.slope) <= sweep.bound
    assert sweep.bound < (1e-2 if sweep.format == "float32" else 1e-9)


def test_the_picture_has_a_line_for_each_step(sweep: Sweep) -> None:
    lines = sweep.picture().split("\n")
    assert len(lines) == len(sweep.points) and "step  1.0e-05" in lines[5]
    bars = [line.count("#") for line in lines]
    assert bars[0] > min(bars) < bars[-1]


def test_a_large_vocabulary_is_sampled() -> None:
    found = sweep_of(torch.zeros(5000), 4999, "float32")
    assert found.entries == MAX_ENTRIES
    assert all(math.isfinite(point.median) for point in found.points)
