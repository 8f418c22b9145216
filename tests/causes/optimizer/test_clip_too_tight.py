"""Clipping that harms, and clipping that does not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from evidence import UPDATE, check_refuted, check_trial, check_untested, seen, steps, tried

from lossleuth.causes.optimizer.clip_too_tight import CAUSE, CURE, LOOSER, judge
from lossleuth.causes.reasoning import MIN_EFFECT_NATS
from lossleuth.findings.update import GradientEdits
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import FoundIn, Origins


def clipped(*factors: float, limit: float = 0.01) -> Evidence:
    return seen(steps=steps(len(factors), clip_factor=list(factors), clip_limit=limit))


def test_tight_clipping_is_suspected_until_left_out() -> None:
    fault = clipped(0.01, 0.02, 0.01, 1.0)
    check_trial(judge, fault, [CURE], UPDATE, harmless=Status.REFUTED, min_effect=MIN_EFFECT_NATS)
    assert "at 0.01" in judge(fault).because and "3 of 4" in judge(fault).because


def test_clipping_in_every_step_that_an_adaptive_rule_cancels_is_refuted() -> None:
    check_refuted(judge(tried(clipped(0.01, 0.01), CURE, 0.05)), "2 of 2", "+0.050")


def test_mild_clipping_that_costs_much_is_proven_by_the_challenge() -> None:
    mild = clipped(0.5, 0.4, 0.3)
    assert judge(tried(mild, CURE, 0.3)).status is Status.PROVEN
    check_refuted(judge(tried(mild, CURE, 0.05)), "3 of 3")
    # What is never clipped is not cured by leaving it out.
    check_refuted(judge(tried(clipped(1.0, 1.0), CURE, 0.3)), "0 of 2")


def test_where_it_diverges_without_clipping_a_usual_limit_is_tried() -> None:
    fault = clipped(0.01, 0.02, 0.01)
    for gone in (-math.inf, -20.0):
        diverged = tried(fault, CURE, gone)
        assert judge(diverged).trials_wanted == (LOOSER,)
        assert judge(tried(diverged, LOOSER, 2.0)).status is Status.PROVEN
        check_refuted(judge(tried(diverged, LOOSER, 0.0)), "Harmless here")


def test_clipping_by_hand_is_seen_in_the_gradients() -> None:
    assert CAUSE.judged(seen(GradientEdits(0.02, ()))).status is Status.SUSPECTED


def test_a_gradient_scaler_is_no_clipping() -> None:
    unscaled = seen(GradientEdits(1 / 1024, ()), steps=steps(3, loss_scale=1024.0))
    check_refuted(judge(unscaled), "0 of 3")


def test_the_file_of_the_setting_is_named() -> None:
    origins = Origins(settings={"clip": FoundIn("config.yaml")})
    assert judge(replace(clipped(0.01, 0.01), origins=origins)).where == Where("config.yaml")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (clipped(0.5, 0.4, 0.3), "3 of 3"),
        (clipped(0.01, 1.0, 1.0), "1 of 3"),
        (seen(GradientEdits(1.0, ())), "0 of 1"),
        (seen(), "0 of 4"),
    ],
    ids=["mild", "only the first steps", "not at all", "nothing to see"],
)
def test_mild_clipping_is_sound(evidence: Evidence, words: str) -> None:
    check_refuted(judge(replace(evidence, recorded=evidence.recorded[:1])), words)


def test_without_a_step_it_is_untested() -> None:
    check_untested(CAUSE.judged(Evidence()), "no step")
