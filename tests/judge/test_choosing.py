"""Decisions about trials."""

from __future__ import annotations

from dataclasses import replace

import pytest
from any_finding import finding

from lossleuth.findings.evaluation import Evaluation
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.choosing import (
    SCREENING_SEEDS,
    Wish,
    briefly_tried,
    challenge_steps,
    fresh_seeds,
    joined,
    missed_evaluations,
    next_wish,
    trial_patience,
    trial_steps,
    whole_steps,
)
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence, SeenEvaluation
from lossleuth.types.judgement import Judgement, Status, Wrongness
from lossleuth.types.observed import Ending, Step

ONE = Change.of("clear_gradients")


def effect(change: Change, nats: float, steps: int = 20) -> Effect:
    return Effect(change, nats, 0.01, 3, steps, 3.0, 3.0 - nats, 3.0)


def test_of_several_changes_the_best_on_one_seed_is_tried_on_others() -> None:
    rates = tuple(Change.of("scale_lr", factor=f) for f in (0.1, 0.3))
    wishes = [("lr_too_high", rates), ("gradient_not_cleared", (ONE,))]
    asked: set[tuple[Change, tuple[int, ...]]] = set()
    # What one cause asks for by itself needs no choice.
    assert next_wish(wishes, {}, {}, asked, 3) == Wish((ONE,), (0, 1, 2))
    asked.add((ONE, (0, 1, 2)))
    assert next_wish(wishes, {}, {}, asked, 3) == Wish(rates, SCREENING_SEEDS)
    asked |= {(rate, SCREENING_SEEDS) for rate in rates}
    effects = {rates[0]: effect(rates[0], 0.2), rates[1]: effect(rates[1], 0.9)}
    # Not the one that it was chosen by: of many looks at noise one finds something.
    assert next_wish(wishes, effects, {}, asked, 3) == Wish((rates[1],), fresh_seeds(3))
    asked |= {(rate, fresh_seeds(3)) for rate in rates}
    assert next_wish(wishes, effects, {}, asked, 3) is None


def test_a_change_that_was_screened_and_is_asked_for_alone_is_tried_on_other_seeds() -> None:
    asked = {(ONE, SCREENING_SEEDS)}
    assert next_wish([("a", (ONE,))], {}, {}, asked, 3) == Wish((ONE,), (1, 2, 3))
    assert next_wish([("a", (ONE,))], {}, {}, {(ONE, (1, 2, 3))}, 3) is None


def run_of(count: int, seconds: float) -> Evidence:
    return Evidence(steps=[Step(step=n, seconds=seconds) for n in range(count)])


def test_a_trial_of_a_run_that_turns_late_goes_on_until_after_that() -> None:
    losses = [4.0 - 0.01 * i for i in range(300)] + [4.0] * 100
    steps = [Step(step=i, loss=x, seconds=0.01) for i, x in enumerate(losses)]
    late = Evidence(steps=steps)
    assert trial_steps(late) == 80
    assert trial_steps(late, left=60.0) == 340
    assert trial_steps(late, left=10.0) == 80
    assert trial_steps(Evidence(steps=steps[:300]), left=60.0) == 80


def test_a_challenge_is_screened_over_as_many_steps_as_fit() -> None:
    quick, slow = run_of(400, 0.01), run_of(400, 1.0)
    assert challenge_steps(quick, 100.0, 0.0) == 380
    assert challenge_steps(quick, 1000.0, 0.0) == 400
    assert challenge_steps(slow, 100.0, 0.0) == trial_steps(slow)
    # What a run takes to load is not spent on steps.
    assert challenge_steps(quick, 100.0, 4.0) < 200


def test_a_whole_run_is_tried_only_where_there_is_time_for_it() -> None:
    assert whole_steps(run_of(400, 0.01), 60.0, 1.0, 3) == 400
    assert whole_steps(run_of(400, 0.1), 60.0, 1.0, 3) is None


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


def test_what_costs_a_little_in_a_short_trial_is_tried_again() -> None:
    growing = replace(benign(80), status=Status.SUSPECTED)
    assert briefly_tried({"a": growing}, 200) == {ONE: 2}


@pytest.mark.parametrize("status", [Status.PROVEN, Status.REFUTED])
def test_only_what_is_not_decided_is_tried_again(status: Status) -> None:
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
