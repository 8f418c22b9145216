"""Weights that start far too large."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from evidence import (
    OPTIMIZER,
    alternating,
    check_refuted,
    check_trial,
    check_untested,
    steps,
    tried,
)

from lossleuth.causes.initialisation.init_too_large import CAUSE, CURE, MIN_GAIN, judge
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import FoundIn, Origins, WeightOrigins


def starting(*losses: float, vocabulary: int | None = 96) -> Evidence:
    return alternating(*([true_loss(loss, vocabulary)] for loss in losses))


def true_loss(loss: float, vocabulary: int | None = 96) -> TrueLoss:
    return TrueLoss(loss, 512, vocabulary, logits_std=1.0)


def test_a_first_loss_far_above_knowing_nothing_is_suspected_until_rescaled() -> None:
    check_trial(judge, starting(20.0, 9.0), [CURE], OPTIMIZER, min_effect=MIN_GAIN)
    assert "20.00" in judge(starting(20.0)).because and "4.56" in judge(starting(20.0)).because


def test_the_file_that_the_weights_came_from_is_named() -> None:
    origins = Origins(weights=WeightOrigins([FoundIn("start.pt")]))
    assert judge(replace(starting(20.0), origins=origins)).where == Where("start.pt")


@pytest.mark.parametrize("first", [4.6, 5.5, 2.0])
def test_a_first_loss_near_knowing_nothing_or_below_is_sound(first: float) -> None:
    check_refuted(judge(starting(first, 30.0)), f"{first:.3f}", "4.564")


def test_a_trained_model_before_a_surprising_text_is_benign() -> None:
    assert judge(tried(starting(9.0), CURE, 0.05)).status is Status.BENIGN


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "no step was recorded"),
        (starting(20.0, vocabulary=None), "not known"),
        (starting(math.nan), "not known"),
        (Evidence(recorded=[RecordedStep(5, [true_loss(20.0)])]), "not known"),
    ],
    ids=["nothing", "classes unknown", "not a number", "late"],
)
def test_without_the_first_loss_it_is_untested(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def test_the_fourth_step_is_still_the_start() -> None:
    evidence = Evidence(recorded=[RecordedStep(4, [true_loss(20.0)])])
    assert judge(evidence).status is Status.SUSPECTED


@pytest.mark.parametrize(("last", "is_overcome"), [(2.0, True), (3.0, False)])
def test_a_high_first_loss_that_the_run_overcomes_is_no_fault(
    last: float, is_overcome: bool
) -> None:
    judgement = judge(replace(starting(20.0, last), steps=steps(9, unigram=3.0)))
    assert judgement.status is (Status.REFUTED if is_overcome else Status.SUSPECTED)


def test_a_high_start_that_the_run_overcomes_is_no_fault() -> None:
    found = starting(20.0, 2.0)
    learnt = replace(found, steps=[replace(step, unigram=3.0) for step in found.steps])
    assert judge(learnt).status is Status.REFUTED
    assert "2.000" in judge(learnt).because


def test_a_high_start_is_no_fault_of_the_past_where_rescaling_gains() -> None:
    found = starting(20.0, 2.0)
    learnt = replace(found, steps=[replace(step, unigram=3.0) for step in found.steps])
    assert judge(tried(learnt, CURE, 0.3)).status is Status.PROVEN
    assert judge(tried(learnt, CURE, 0.05)).status is Status.REFUTED
