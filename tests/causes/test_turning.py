"""Where a run turned for the worse."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from evidence import seen, steps

from lossleuth.causes.turning import turn, window_means
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Step

FALL = [4.0 - 0.03 * i for i in range(100)]


def run(losses: list[float]) -> Evidence:
    return seen(steps=steps(len(losses), loss=losses))


def test_a_loss_that_jumps_late_turned_there() -> None:
    found = turn(run([*FALL, *[3.5] * 40]))
    assert found is not None and found.is_sure
    assert found.step == 100
    assert found.end == pytest.approx(3.5)
    assert found.sentence == f"the loss falls to {found.lowest:.3f} and ends at 3.500"


def test_a_loss_that_goes_on_falling_or_spikes_and_recovers_did_not_turn() -> None:
    assert turn(run(FALL)) is None
    assert turn(run([*FALL[:50], 9.0, 9.0, *FALL[50:]])) is None


def test_noise_of_batches_is_no_sure_turn() -> None:
    sure = 0
    for seed in range(40):
        noise = random.Random(seed)
        found = turn(run([4.0, *[2.0 + noise.gauss(0, 0.3) for _ in range(60)]]))
        sure += found is not None and found.is_sure
    assert sure == 0


def test_too_few_losses_and_such_that_are_no_numbers_have_no_turn() -> None:
    assert turn(run([4.0, 1.0, 3.0])) is None
    assert turn(run([*FALL, math.nan])) is None
    assert turn(seen(steps=[replace(step, loss=None) for step in steps(20)])) is None


def test_means_are_taken_over_a_tenth_of_a_run_and_at_least_four_losses() -> None:
    assert len(window_means([1.0] * 100)) == 91
    assert window_means([1.0, 3.0]) == [2.0]


def test_a_turn_is_found_in_a_run_of_a_hundred_thousand_steps() -> None:
    # Each loss is added once: a mean of its own for every window would take a minute.
    losses = [4.0 - 3e-5 * step for step in range(80_000)] + [3.5] * 20_000
    found = turn(Evidence(steps=[Step(step=i, loss=x) for i, x in enumerate(losses)]))
    assert found is not None and found.is_sure
    assert (found.step, found.end) == (80_000, pytest.approx(3.5))
