"""Weights that move by more than their updates."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lossleuth.causes.rewritten import MAX_SIZE, rewritten
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Readings, Step


def run(weights: Sequence[Sequence[float]], sizes: Sequence[int], update: float = 0.01) -> Evidence:
    updates = [[update] * len(sizes) for _ in weights]
    steps = [Step(step=i) for i in range(len(weights))]
    return Evidence(
        steps=steps, sizes=sizes, readings=Readings(weight_rms=weights, update_rms=updates)
    )


def restored(columns: int = 1) -> list[list[float]]:
    """They grow, and every tenth step are what they were at first."""
    return [[1.0 + 0.01 * (step % 10)] * columns for step in range(50)]


def test_weights_that_are_restored_every_few_steps_are_found_at_those() -> None:
    assert rewritten(run(restored(), [64])) == [10, 20, 30, 40]


def test_weights_that_go_along_with_their_updates_are_not() -> None:
    assert rewritten(run([[1.0 + 0.01 * step] for step in range(50)], [64])) == []


def test_one_tensor_of_many_may_be_clamped_and_all_may_be_loaded_once() -> None:
    one = [[a, 1.0, 1.0] for (a,) in restored()]
    assert rewritten(run(one, [64, 64, 64])) == []
    assert rewritten(run([*[[1.0]] * 20, *[[3.0]] * 20], [64])) == []


def test_large_tensors_are_read_in_samples_and_tell_nothing() -> None:
    assert rewritten(run(restored(), [MAX_SIZE + 1])) == []


def test_steps_that_are_not_held_or_not_known_tell_nothing() -> None:
    evidence = run(restored(), [64])
    gaps = [Step(step=3 * step.step) for step in evidence.steps]
    assert rewritten(Evidence(steps=gaps, sizes=[64], readings=evidence.readings)) == []
    assert rewritten(run([[math.nan]] * 50, [64])) == []
    assert rewritten(Evidence()) == []
