"""Old gradients under new ones."""

from __future__ import annotations

import math

import pytest
from evidence import UPDATE, alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.gradient.gradient_not_cleared import CAUSE, CURE, judge
from lossleuth.findings.gradient import StaleGradient
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.evidence import Evidence


def test_gradients_that_pile_up_are_suspected_until_cleared() -> None:
    fault = alternating(*([StaleGradient(share)] for share in (1.0, 1.7, 2.4)))
    check_trial(judge, fault, [CURE], UPDATE)
    judgement = judge(fault)
    assert "2.4 times" in judgement.because
    assert judgement.wrongness is not None and judgement.wrongness.value == 2.4


@pytest.mark.parametrize("share", [0.0, 1e-9, 0.01])
def test_cleared_gradients_are_sound(share: float) -> None:
    check_refuted(judge(seen(StaleGradient(share))))


def test_gradients_left_now_and_then_are_not_blamed() -> None:
    check_refuted(judge(alternating([StaleGradient(1.0)], [StaleGradient(0.0)])), "0.0e+00")


def test_gradients_that_are_cleared_now_and_then_only_are_suspected() -> None:
    left, cleared = [StaleGradient(1.7)], [StaleGradient(0.0)]
    fault = alternating(left, left, cleared, left)
    check_trial(judge, fault, [CURE], UPDATE)
    assert "on 3 of 4 recorded steps" in judge(fault).because


def test_steps_that_a_scaler_skips_are_left_out() -> None:
    broken, sound = [StaleGradient(math.nan)], [StaleGradient(0.0)]
    check_refuted(judge(alternating(broken, broken, sound)), "0.0e+00")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "no step was recorded"),
        (seen(), "stale gradient could not be measured"),
        (Evidence(recorded=[RecordedStep(0, [StaleGradient(1.0)])]), "no step after the first"),
        (seen(StaleGradient(math.nan)), "no step after the first"),
    ],
    ids=["nothing", "no backward pass", "the first step alone", "no number"],
)
def test_without_a_later_step_it_is_untested(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)
