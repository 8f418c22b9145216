"""Head-room, loss scaling, and the two kinds of overflow."""

from __future__ import annotations

import math

import pytest
import torch

from lossleuth.labs.precision.ranges import overflow_of, range_of


def test_what_float16_does_to_numbers_is_counted() -> None:
    numbers = torch.tensor([0.0, 1e-9, 3e-8, 3.1e-8, 1e-6, 1.0, -65504.0, 65521.0])
    found = range_of("gradients", [numbers[:4], numbers[4:]])
    half, brain = found.formats
    assert (found.count, found.largest) == (8, 65521.0)
    assert found.smallest == pytest.approx(1e-9, rel=1e-6)
    # Of the 7 that are not 0: below half of 6e-8, kept but below 6.1e-5, and above 65 519.
    assert (half.flushed, half.subnormal, half.overflow) == (1 / 7, 3 / 7, 1 / 7)
    assert (brain.flushed, brain.overflow, brain.subnormal) == (0, 0, 0)
    assert half.room < 0 < brain.room


def test_a_loss_scale_uses_the_room_that_there_is() -> None:
    gradients = torch.logspace(-12, -3, 1000, dtype=torch.float64)
    half = range_of("gradients", [gradients], scaled=True).formats[0]
    assert half.scale == 2.0**25  # 65504 / 1e-3 lies between 2**25 and 2**26
    assert float(gradients.max()) * half.scale <= 65504 < float(gradients.max()) * half.scale * 2
    expected = int((gradients * half.scale < 2.0**-25).sum()) / 1000
    assert half.flushed_scaled == pytest.approx(expected, abs=1.5e-3)
    assert half.flushed > half.flushed_scaled + 0.4


def test_without_asking_no_scale_is_told() -> None:
    assert math.isnan(range_of("weights", [torch.ones(3)]).formats[0].flushed_scaled)


def test_what_is_not_finite_counts_as_overflow_and_not_as_the_largest() -> None:
    found = range_of("gradients", [torch.tensor([math.inf, math.nan, 2.0, 0.0])])
    assert found.largest == 2.0 and found.formats[0].overflow == pytest.approx(2 / 3)
    assert found.formats[0].room > 0


@pytest.mark.parametrize("tensors", [[torch.zeros(3)], [torch.zeros(0)]])
def test_zeros_have_no_range(tensors: list[torch.Tensor]) -> None:
    found = range_of("gradients", tensors, scaled=True)
    assert math.isnan(found.smallest) and math.isnan(found.formats[0].room)
    assert found.formats[0].flushed == 0


@pytest.mark.parametrize(
    ("largest", "format", "where"),
    [
        (11.0, "float16", "nowhere"),
        (11.2, "float16", "formula"),
        (65504.0, "float16", "formula"),
        (65520.0, "float16", "value"),
        (88.0, "bfloat16", "nowhere"),
        (89.0, "bfloat16", "formula"),
        (89.0, "float32", "formula"),
        (709.0, "float64", "nowhere"),
    ],
)
def test_a_formula_is_told_from_a_value(largest: float, format: str, where: str) -> None:
    logits = torch.tensor([0.0, largest, -math.inf], dtype=torch.float64)
    assert overflow_of(logits, format).where == where
    # As the format itself does it.
    stored = logits.to(getattr(torch, format))
    naive, stable = stored.exp(), (stored - stored.amax()).exp()
    assert bool(naive.isfinite().all()) == (where == "nowhere")
    assert bool(stable.isfinite().all()) == (where != "value")


def test_a_value_far_below_0_does_not_fit_either() -> None:
    assert overflow_of(torch.tensor([0.0, -70_000.0]), "float16").where == "value"
