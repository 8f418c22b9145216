"""Steps that are too short."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from evidence import OPTIMIZER, check_refuted, check_trial, check_untested, seen, steps, tried

from lossleuth.causes.optimizer.lr_too_low import CAUSE, CHALLENGE, MIN_GAIN, WANTS, judge
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.findings.update import Coverage, Undone
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import Ending, FoundIn, Origins, Readings, RunSettings, Step

STILL = [5.0 - 0.001 * i for i in range(20)]
FALLING = [5.0 - 0.2 * i for i in range(20)]
RISING = [5.0 + 0.1 * i for i in range(20)]


def run(losses: list[float], **scalars: float) -> Evidence:
    return seen(steps=steps(len(losses), loss=losses, lr=1e-7, **scalars))


def test_a_loss_that_hardly_moves_is_suspected_until_tried_at_higher_rates() -> None:
    check_trial(judge, run(STILL), WANTS, OPTIMIZER, harmless=Status.REFUTED, min_effect=MIN_GAIN)
    judgement = judge(run(STILL))
    assert "1e-07" in judgement.because and "5.000 to 4.982" in judgement.because


def test_the_file_of_the_setting_is_named() -> None:
    origins = Origins(settings={"lr": FoundIn("config.yaml")})
    assert judge(replace(run(STILL), origins=origins)).where == Where("config.yaml")


@pytest.mark.parametrize(("losses", "words"), [(FALLING, "falls"), (RISING, "rises")])
def test_a_loss_that_moves_is_the_work_of_steps_that_are_long_enough(
    losses: list[float], words: str
) -> None:
    check_refuted(judge(run(losses)), words, "long enough")


def test_a_trained_model_that_is_to_change_little_is_not_blamed() -> None:
    true_loss = TrueLoss(2.0, count=512, vocabulary=96, logits_std=1.0)
    trained = seen(true_loss, steps=steps(20, loss=[2.0] * 20, unigram=4.0))
    check_refuted(CAUSE.judged(trained), "2.000", "4.000", "trained model")


def test_a_rate_that_makes_a_fair_part_of_the_progress_is_open_until_the_whole_run_is_tried() -> (
    None
):
    evidence = tried(run(STILL), WANTS[0], 1.0, without=4.0, start=5.0)
    check_untested(judge(evidence), "shorter than the run")
    whole = replace(evidence, ending=Ending(how="end of script"))
    assert judge(whole).status is Status.PROVEN


@pytest.mark.parametrize(
    ("how", "length", "proven"),
    [("end of script", 20, True), ("end of script", 10, False), ("stopped", 20, False)],
)
def test_a_loss_that_falls_proves_it_only_where_a_higher_rate_wins_the_whole_run(
    how: str, length: int, proven: bool
) -> None:
    fallen = replace(run(FALLING), ending=Ending(how=how))
    judged = judge(tried(fallen, CHALLENGE, 0.5, steps=length))
    assert (judged.status is Status.PROVEN) is proven
    if not proven:
        check_refuted(judged, "long enough")


def test_a_rate_that_is_only_less_bad_is_no_cure() -> None:
    evidence = tried(run(STILL), WANTS[0], 2.0, without=9.0, start=5.0)
    check_refuted(judge(evidence), "no rate learns")


def test_short_runs_and_frozen_models_are_untested() -> None:
    check_untested(CAUSE.judged(Evidence()), "only 0 losses")
    check_untested(CAUSE.judged(run([5.0] * 7)), "only 7 losses")
    coverage = Coverage((), 0.0, (), 0, 25, False, frozen_share=0.9)
    check_untested(CAUSE.judged(seen(coverage, steps=steps(20, loss=STILL))), "90%")


@pytest.mark.parametrize(
    ("updates", "gradients", "status"),
    [
        # Twice the gradient of each, or as long for all: Adam, or something that is neither.
        ([[0.2, 0.4]], [0.1, 0.2], Status.PROVEN),
        ([[math.nan, math.nan], [0.2, 0.4]], [0.1, 0.2], Status.PROVEN),
        ([[0.1, 0.1]], [0.1, 0.2], Status.SUSPECTED),
        ([], [0.1, 0.2], Status.PROVEN),
        ([[0.1, 0.11]], [math.nan, math.nan], Status.SUSPECTED),
        ([[0.1, 0.4]], [math.nan, math.nan], Status.PROVEN),
    ],
)
def test_a_rule_by_hand_may_be_at_fault_as_well(
    updates: list[list[float]], gradients: list[float], status: Status
) -> None:
    readings = Readings(update_rms=updates, grad_rms=[gradients] * len(updates))
    made = seen(steps=steps(len(STILL), loss=STILL), readings=readings, settings=RunSettings())
    judged = judge(tried(made, WANTS[1], 2.0))
    assert judged.status is status
    assert ("rule of the update" in judged.because) is (status is Status.SUSPECTED)


def test_the_highest_rate_is_named() -> None:
    warmed = seen(steps=steps(20, loss=STILL, lr=[1e-8 * i for i in range(20)]))
    assert "1.9e-07," in judge(warmed).because


def test_a_rate_that_still_rises_where_we_stopped_is_left_out() -> None:
    warming = [Step(i, loss=4.0 - i / 1000, lr=1e-6 * i) for i in range(40)]
    for how, status in (("stopped", Status.UNTESTED), ("end of script", Status.SUSPECTED)):
        assert judge(Evidence(steps=warming, ending=Ending(how=how))).status is status


def test_where_every_gradient_is_exactly_0_no_rate_would_move_anything() -> None:
    dead = replace(run(STILL, grad_norm=0.0), readings=Readings(update_rms=[[0.0, math.nan]] * 20))
    check_refuted(judge(dead), "exactly 0 at each of 20 steps", "at any rate")


@pytest.mark.parametrize(
    ("norm", "update"),
    [([0.0] * 19 + [1e-30], 0.0), (0.0, 1e-12)],
    ids=["one gradient is not 0", "decay moves weights"],
)
def test_where_something_moves_or_could_move_the_rate_may_be_it(norm: float, update: float) -> None:
    readings = Readings(update_rms=[[update]] * 20)
    judgement = judge(replace(run(STILL, grad_norm=norm), readings=readings))
    assert judgement.status is Status.SUSPECTED


def test_weights_that_something_else_writes_to_say_nothing_of_the_rate() -> None:
    sizes = [[1.0 - 0.5 * (step % 5 == 4)] for step in range(20)]
    readings = Readings(weight_rms=sizes, update_rms=[[0.01]] * 20)
    restored = replace(run(STILL), readings=readings, sizes=[8])
    check_untested(judge(restored), "at 7 steps", "something else")


def test_updates_that_are_lost_in_rounding_say_nothing_of_the_rate() -> None:
    readings = Readings(swallowed_share=[[0.2]] * 20, update_rms=[[0.01]] * 20)
    lossy = replace(run(STILL), readings=readings, sizes=[8])
    check_untested(judge(tried(lossy, CHALLENGE, 2.0)), "20% of an update", "make up for it")


def test_updates_that_are_taken_back_say_nothing_of_the_rate() -> None:
    still = run(STILL)
    recorded = [RecordedStep(step, (Undone(0.99),)) for step in (0, 1, 4)]
    taken_back = tried(replace(still, recorded=recorded), CHALLENGE, 2.0)
    check_untested(judge(taken_back), "99% of an update is taken back")
