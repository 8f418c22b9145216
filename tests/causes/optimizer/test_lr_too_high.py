"""Steps that overshoot."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from evidence import (
    OPTIMIZER,
    check_proven,
    check_refuted,
    check_trial,
    check_untested,
    seen,
    steps,
    tried,
)

from lossleuth.causes.optimizer.lr_too_high import (
    CAUSE,
    CHALLENGES,
    MIN_GAIN,
    NO_DECAY,
    WANTS,
    judge,
)
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.update import Coverage
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import FoundIn, Made, Origins, ParameterGroup, RunSettings

RISING = [5.0, 4.0, 3.0, 3.0, 3.0, 3.0, *[5.0] * 14]
SWINGING = [5.0, *[2.0, 4.0] * 10]
STUCK = [5.0 - 0.01 * i for i in range(20)]
FALLING = [5.0 - 0.2 * i for i in range(20)]


def run(losses: list[float], rate: float = 0.3) -> Evidence:
    return seen(steps=steps(len(losses), loss=losses, lr=rate))


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        (RISING, "falls to 3.000 and ends at 5.000"),
        (SWINGING, "swings"),
        ([5.0] * 9 + [math.nan], "does not stay finite"),
        (STUCK, "ends at 4.825"),
    ],
)
def test_a_loss_that_does_not_go_down_well_is_suspected_until_tried_at_lower_rates(
    losses: list[float], words: str
) -> None:
    fault = run(losses)
    check_trial(judge, fault, WANTS, OPTIMIZER, harmless=Status.REFUTED, min_effect=MIN_GAIN)
    assert "0.3," in judge(fault).because and words in judge(fault).because


def test_a_loss_no_better_than_single_tokens_is_suspected() -> None:
    true_loss = TrueLoss(3.0, count=512, vocabulary=96, logits_std=1.0)
    fault = seen(true_loss, steps=steps(20, loss=FALLING, lr=0.3, unigram=3.0))
    assert "no better than single tokens" in CAUSE.judged(fault).because


def test_a_run_that_breaks_is_proven_by_one_that_does_not() -> None:
    fault = run([5.0] * 9 + [math.nan])
    effect = Effect(WANTS[0], math.inf, 0.0, 3, 100, math.inf, 2.0, 5.0)
    assert judge(replace(fault, effects={WANTS[0]: effect})).status is Status.PROVEN


def test_the_file_of_the_setting_is_named() -> None:
    origins = Origins(settings={"lr": FoundIn("config.yaml")})
    assert judge(replace(run(RISING), origins=origins)).where == Where("config.yaml")


@pytest.mark.parametrize("without", [3.0, 3.4])
def test_a_rate_that_makes_most_of_the_progress_may_still_be_too_high(without: float) -> None:
    evidence = tried(run(STUCK), WANTS[0], 0.4, without=without, start=5.0)
    assert judge(evidence).status is Status.PROVEN


@pytest.mark.parametrize("change", CHALLENGES)
def test_a_run_without_a_symptom_is_proven_by_the_challenge_that_gains(change: Change) -> None:
    assert judge(run(FALLING)).status is Status.REFUTED
    proven = judge(tried(run(FALLING), change, 0.2))
    check_proven(proven, OPTIMIZER, "goes down, to 1.500", "3 paired runs")
    assert proven.cure == change
    for nil in ({"nats": 0.09}, {"nats": 0.2, "seeds": 1}, {"nats": 0.2, "error": 0.1}):
        assert judge(tried(run(FALLING), change, **nil)).status is Status.REFUTED


def test_a_rate_that_is_only_less_bad_is_no_cure() -> None:
    evidence = tried(run(RISING), WANTS[0], 2.0, without=9.0, start=5.0)
    check_refuted(judge(evidence), "no rate learns")


def test_a_run_that_learns_well_is_not_suspected() -> None:
    check_refuted(judge(run(FALLING)), "5.000", "1.200")


def test_short_runs_and_frozen_models_are_untested() -> None:
    check_untested(CAUSE.judged(Evidence()), "only 0 losses")
    check_untested(CAUSE.judged(run([5.0] * 7)), "only 7 losses")
    coverage = Coverage((), 0.0, (), 0, 25, False, frozen_share=0.9)
    check_untested(CAUSE.judged(seen(coverage, steps=steps(20, loss=RISING))), "90%")


def test_the_highest_rate_is_named() -> None:
    warmed = seen(steps=steps(20, loss=RISING, lr=[0.01 * i for i in range(20)]))
    assert "0.19," in judge(warmed).because


def decaying() -> Evidence:
    group = ParameterGroup(betas=(0.9, 0.999), weight_decay=0.5)
    settings = RunSettings(optimizers=[Made("train.py:5", [group])])
    return tried(replace(run(STUCK), settings=settings), WANTS[0], 1.0, without=4.8, start=5.0)


def test_a_strong_decay_has_to_be_told_from_the_rate_that_drives_it() -> None:
    asked = judge(decaying())
    assert (asked.status, asked.trials_wanted) == (Status.SUSPECTED, (NO_DECAY,))
    check_refuted(judge(tried(decaying(), NO_DECAY, 0.9)), "without weight decay")
    assert judge(tried(decaying(), NO_DECAY, 0.1)).status is Status.PROVEN


def test_a_decay_that_could_not_be_switched_off_does_not_stand_in_the_way() -> None:
    assert judge(replace(decaying(), failed={NO_DECAY: "killed"})).status is Status.PROVEN


def test_a_rate_that_is_raised_late_is_tried_at_what_it_was_before() -> None:
    losses = [*[4.0 - 0.03 * i for i in range(100)], *[4.5] * 40]
    jump = seen(steps=steps(140, loss=losses, lr=[0.002] * 100 + [0.2] * 40))
    cap = Change.of("cap_lr", rate=0.002)
    check_trial(judge, jump, [cap], OPTIMIZER, harmless=Status.REFUTED, min_effect=MIN_GAIN)
    assert "From step 100 on the learning rate goes from 0.002 up to 0.2" in judge(jump).because
    # A warm-up raises it too.
    warm = [0.002 * (i + 1) / 70 if i < 140 else 0.0 for i in range(140)]
    assert judge(seen(steps=steps(140, loss=losses, lr=warm))).trials_wanted == WANTS
