"""What a backward pass adds, times a factor."""

from __future__ import annotations

import pytest
import torch
from changed_runs import Ran, entropy, sgd, trained, with_changes

from lossleuth.interventions.gradient.scale_gradient import ScaleGradient


def test_factor_one_is_exactly_no_change() -> None:
    assert with_changes(trained, ScaleGradient(1.0)).is_exactly(trained())


@pytest.mark.parametrize("factor", [0.0, 0.25, 8.0, -1.0])
def test_it_equals_a_loss_that_was_multiplied(factor: float) -> None:
    expected = trained(make=sgd, loss_of=lambda s, t: factor * entropy(s, t), dtype=torch.float64)
    found = with_changes(lambda: trained(make=sgd, dtype=torch.float64), ScaleGradient(factor))
    assert found.distance(expected) < 1e-13


def test_what_was_there_before_is_not_scaled_again() -> None:
    def accumulated(factor: float) -> Ran:
        return trained(
            make=sgd,
            clear=lambda o: None,
            loss_of=lambda s, t: factor * entropy(s, t),
            dtype=torch.float64,
        )

    found = with_changes(lambda: accumulated(1.0), ScaleGradient(0.5))
    assert found.distance(accumulated(0.5)) < 1e-13
