"""Decisions about trials."""

from __future__ import annotations

from dataclasses import replace

import pytest
from any_finding import finding

from lossleuth.findings.evaluation import Evaluation
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.choosing import (
    Wish,
    briefly_tried,
    joined,
    missed_evaluations,
    next_wish,
    trial_patience,
)
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence, SeenEvaluation
from lossleuth.types.judgement import Judgement, Status, Wrongness
from lossleuth.types.observed import Ending, Step

ONE = Change.of("clear_gradients")


def effect(change: Change, nats: float, steps: int = 20) -> Effect:
    return Effect(change, nats, 0.01, 3, steps, 3.0, 3.0 - nats, 3.0)


def test_of_several_changes_the_best_on_one_seed_is_tried_on_all() -> None:
    rates = tuple(Change.of("scale_lr", factor=f) for f in (0.1, 0.3))
    wishes = [("lr_too_high", rates), ("gradient_not_cleared", (ONE,))]
    asked: set[tuple[Change, int]] = set()
    # What one cause asks for by itself needs no choice.
    assert next_wish(wishes, {}, {}, asked, 3) == Wish((ONE,), 3)
    asked.add((ONE, 3))
    assert next_wish(wishes, {}, {}, asked, 3) == Wish(rates, 1)
    asked |= {(rate, 1) for rate in rates}
    effects = {rates[0]: effect(rates[0], 0.2), rates[1]: effect(rates[1], 0.9)}
    assert next_wish(wishes, effects, {}, asked, 3) == Wish((rates[1],), 3)
    asked |= {(rate, 3) for rate in rates}
    assert next_wish(wishes, effects, {}, asked, 3) is None


def test_a_trial_may_take_as_long_as_the_program_is_slow() -> None:
    quick = Evidence(steps=[Step(step=n, seconds=0.01) for n in range(50)])
    slow = Evidence(steps=[Step(step=n, seconds=3.0) for n in range(50)])
    # A slow program has a time to match, and so has one that loads for a minute.
    assert trial_patience(slow, 24, 5.0) > 24 * 3.0 + 5.0 > trial_patience(quick, 24, 0.0)
    assert trial_patience(quick, 24, 60.0) > 10 * 60.0
    # No loaded machine makes a short one look as if it hung.
    assert trial_patience(quick, 24, 0.0) >= 30


def benign(steps: int) -> Judgement:
    fault = Wrongness("gap", 1.0, 0.0, 0.0)
    return Judgement(Status.BENIGN, "1 is not 2", wrongness=fault, harm=effect(ONE, 0.0, steps))


@pytest.mark.parametrize(("steps", "made", "times"), [(20, 200, 8), (26, 200, 7), (80, 200, 2)])
def test_what_did_not_matter_is_tried_as_long_as_the_run_allows(
    steps: int, made: int, times: int
) -> None:
    assert briefly_tried({"a": benign(steps)}, made) == {ONE: times}


def test_a_trial_as_long_as_the_run_is_long_enough() -> None:
    assert briefly_tried({"a": benign(80)}, 100) == {}


@pytest.mark.parametrize("status", [Status.PROVEN, Status.SUSPECTED, Status.REFUTED])
def test_only_what_did_not_matter_is_tried_again(status: Status) -> None:
    assert briefly_tried({"a": replace(benign(20), status=status)}, 200) == {}


def test_a_suspicion_without_a_fault_is_not_tried_again() -> None:
    assert briefly_tried({"a": replace(benign(20), wrongness=None)}, 200) == {}


def test_evaluations_that_were_not_recorded_are_missed_the_last_two_of_them() -> None:
    ending = Ending(evaluated=[30, 60, 90])
    evaluation = finding(Evaluation, 0.5)
    seen = SeenEvaluation(60, evaluation)
    assert missed_evaluations(Evidence(ending=ending), 60.0) == (60, 90)
    assert missed_evaluations(Evidence(ending=ending, recorded=[RecordedStep(90)]), 60.0) == (
        30,
        60,
    )
    assert missed_evaluations(Evidence(ending=ending, evaluations=[seen]), 60.0) == ()
    assert missed_evaluations(Evidence(), 60.0) == ()
    # A step takes 0.05 s where nothing is known of it.
    assert missed_evaluations(Evidence(ending=ending), 4.0) == (30, 60)
    # One of a model that has learnt nothing yet is not enough.
    at_first = Evidence(ending=ending, evaluations=[SeenEvaluation(0, evaluation)])
    assert missed_evaluations(at_first, 60.0) == (60, 90)


def test_steps_that_were_recorded_apart_are_joined() -> None:
    one, other = (
        Evidence(
            recorded=[RecordedStep(step)],
            evaluations=[SeenEvaluation(step, finding(Evaluation, 0.5))],
            script=script,
        )
        for step, script in ((1, "train.py"), (7, "again.py"))
    )
    found = joined(one, other)
    assert [step.step for step in found.recorded] == [1, 7]
    assert [seen.step for seen in found.evaluations] == [1, 7]
    assert found.script == "train.py"
