"""Which steps of a run are worth their recording."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossleuth.observe.steps.pacing import (
    EARLY,
    FEW_STEPS,
    FIRST_OF_PHASE,
    FREE_SHARE,
    MAX_SHARE,
    MOST,
    Pacing,
)

SECONDS = 48.0


@dataclass
class Run:
    """What was recorded of a run, and how long everything took."""

    recorded: list[int]
    steps: int
    spent: float
    passed: float


def paced(bare: float, price: float, steps: int = 100_000, phases: tuple[int, ...] = ()) -> Run:
    """A run of steps of one length, until its time is up; each recording has the same price."""
    pacing, now, spent, recorded = Pacing(SECONDS), 0.0, 0.0, list[int]()
    for step in range(steps):
        if now > SECONDS:
            return Run(recorded, step, spent, now)
        if step in phases:
            pacing.new_phase(step)
        if pacing.is_due(step, now):
            recorded.append(step)
            pacing.begin(step, now)
            now += price
            spent += price
            pacing.end(now)
        now += bare
    return Run(recorded, steps, spent, now)


def test_quick_steps_are_recorded_early_and_over_the_whole_run() -> None:
    run = paced(bare=0.005, price=0.3, steps=5000)
    assert run.recorded[: len(EARLY)] == list(EARLY)
    assert run.steps == 5000
    assert 8 <= len(run.recorded) <= 20
    # No fifth of the run is without a recorded step.
    assert {5 * step // 5000 for step in run.recorded} == set(range(5))


def test_slow_steps_get_a_fair_number_too() -> None:
    run = paced(bare=1.0, price=3.0, steps=40)
    assert run.recorded[:2] == [0, 1]
    assert 4 <= len(run.recorded) <= 9
    assert run.recorded[-1] >= run.steps / 2


def test_a_dear_recording_leaves_half_of_the_time_to_the_run() -> None:
    run = paced(bare=0.07, price=12.0)
    assert len(run.recorded) == 2
    assert run.steps > 250


def test_a_later_phase_has_recordings_of_its_own_where_others_are_dear() -> None:
    run = paced(bare=0.05, price=3.0, phases=(200,))
    assert {0, 1, 4, 200, 201, 204} <= set(run.recorded)


def test_a_second_one_is_made_late_rather_than_never() -> None:
    run = paced(bare=0.05, price=20.0)
    assert run.recorded[0] == 0
    assert len(run.recorded) == 2
    assert run.steps > 50


def test_one_that_fills_the_time_is_made_once() -> None:
    assert paced(bare=0.05, price=35.0).recorded == [0]


def test_the_first_one_pays_for_what_is_done_once() -> None:
    pacing = Pacing(SECONDS)
    assert pacing.is_due(0, 0.0)
    pacing.begin(0, 0.0)
    pacing.end(28.0)
    # As dear as the first it would not fit any more.
    assert pacing.is_due(FEW_STEPS, 30.0)
    pacing.begin(FEW_STEPS, 30.0)
    pacing.end(36.0)
    assert not pacing.is_due(2 * FEW_STEPS, 38.0)


def test_a_dear_second_one_does_not_take_the_time_of_the_steps_themselves() -> None:
    run = paced(bare=1.4, price=24.0, steps=30)
    assert run.recorded == [0]
    assert run.steps >= 18


@settings(deadline=None, max_examples=200)
@given(
    bare=st.floats(0.002, 5.0),
    price=st.floats(0.001, 60.0),
    phases=st.lists(st.integers(1, 2000), max_size=5).map(lambda found: tuple(sorted(found))),
)
def test_recordings_stay_within_their_share(
    bare: float, price: float, phases: tuple[int, ...]
) -> None:
    run = paced(bare, price, steps=3000, phases=phases)
    assert run.recorded == sorted(set(run.recorded))
    assert 1 <= len(run.recorded) <= MOST
    # The first and the second are made at any price that fits.
    if len(run.recorded) > 2:
        assert run.spent <= MAX_SHARE * max(run.passed, SECONDS) + 1e-9
    if len(run.recorded) > FIRST_OF_PHASE and not phases:
        assert run.spent <= max(MAX_SHARE * run.passed, FREE_SHARE * SECONDS) + 1e-9


def test_a_phase_is_recorded_early_as_the_run_was() -> None:
    run = paced(bare=0.01, price=0.1, steps=1000, phases=(400,))
    assert {400 + early for early in EARLY} <= set(run.recorded)


def test_the_dearest_of_the_last_prices_counts() -> None:
    pacing = Pacing(SECONDS)
    for step, price in ((0, 1.0), (1, 14.0)):
        assert pacing.is_due(step, 0.0)
        pacing.begin(step, 0.0)
        pacing.end(price)
    # Fifteen are spent; with as much as the dearer one that would be more than half of all.
    assert not pacing.is_due(4, 15.0)


def test_what_is_recorded_for_another_reason_costs_time_and_is_no_step() -> None:
    pacing = Pacing(SECONDS)
    assert pacing.is_due(0, 0.0)
    pacing.begin(None, 0.0)
    pacing.end(11.0)
    assert pacing.is_due(1, 11.0)
    pacing.begin(1, 11.0)
    pacing.end(22.0)
    assert not pacing.is_due(4, 22.5)


@pytest.mark.parametrize("step", [0, 3])
def test_a_step_that_was_recorded_is_due_no_more(step: int) -> None:
    pacing = Pacing(SECONDS)
    pacing.begin(3, 0.0)
    pacing.end(0.1)
    assert not pacing.is_due(step, 0.2)
