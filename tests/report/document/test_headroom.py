"""Headroom from statistics of the record."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lossleuth.report.document.headroom import RecordedRange, largest_activations, ranges_of


def test_classes_are_made_of_their_columns() -> None:
    found = ranges_of(
        {
            "grad_max": np.array([[0.5, np.nan], [2.0, np.inf]]),
            "grad_rms": np.array([[1e-3, 0.0], [0.1, 1e-5]]),
            "moment2_rms": np.array([[1e-2], [1e-4]]),
            "update_ratio": np.array([[9.0], [9.0]]),
        },
        [1.0, math.nan, 300.0],
    )
    by_name = {r.name: r for r in found}
    assert list(by_name) == ["gradients", "Adam's second moment", "activations"]
    gradients = by_name["gradients"]
    assert (gradients.largest, gradients.loudest, gradients.quietest) == (2.0, 0.1, 1e-5)
    assert by_name["Adam's second moment"].quietest == pytest.approx(1e-8)
    assert by_name["activations"].largest == 300.0


def test_what_was_never_measured_has_no_range() -> None:
    assert ranges_of({"grad_max": np.full((2, 2), np.nan)}, [math.nan]) == []


@pytest.mark.parametrize(
    ("quietest", "half", "brain"),
    [
        (1e-3, "kept", "kept"),
        (1e-6, "loses digits", "kept"),
        (1e-8, "becomes 0", "kept"),
        (1e-39, "becomes 0", "loses digits"),
        (1e-42, "becomes 0", "becomes 0"),
        (math.nan, "not recorded", "not recorded"),
    ],
)
def test_a_format_keeps_or_loses_the_parameter_with_the_smallest_rms(
    quietest: float, half: str, brain: str
) -> None:
    found = RecordedRange("gradients", quietest=quietest)
    assert (found.lost("float16"), found.lost("bfloat16")) == (half, brain)


def test_room_goes_by_the_largest_number_where_it_is_known() -> None:
    assert RecordedRange("a", largest=2.0, loudest=1.0).room("float16") == pytest.approx(
        15, abs=0.01
    )
    assert RecordedRange("a", loudest=1.0).room("float16") == pytest.approx(16, abs=0.01)


def test_activations_are_read_by_their_column() -> None:
    event = {"columns": ["rms", "max"], "modules": {"a": [1.0, 5.0], "b": [2.0, 7.0]}}
    assert largest_activations([event, {"columns": ["rms"], "modules": {"a": [1.0]}}]) == [5.0, 7.0]
