"""Changes and what they do."""

from __future__ import annotations

import math

import pytest

from lossleuth.types.change import Change, Effect


def effect(nats: float, error: float = 0.01, seeds: int = 3) -> Effect:
    return Effect(Change.of("scale_lr", factor=0.1), nats, error, seeds, 80, 4.0, 4.0 - nats, 5.0)


@pytest.mark.parametrize(
    ("nats", "error", "seeds", "better"),
    [(0.5, 0.01, 3, True), (0.5, 0.01, 2, False), (0.5, 0.2, 3, False), (-0.5, 0.01, 3, False)],
)
def test_better_is_beyond_three_standard_errors_over_three_seeds(
    nats: float, error: float, seeds: int, better: bool
) -> None:
    assert effect(nats, error, seeds).is_better is better


def test_a_run_that_was_lost_makes_no_progress() -> None:
    lost = effect(0.5)._replace(without=math.inf)
    assert not lost.makes_without(0.0)
    assert effect(0.5).makes_without(0.5)
