"""The loss times a number."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evidence import (
    BACKWARD,
    LOSS,
    TARGET_LINES,
    alternating,
    check_refuted,
    check_trial,
    check_untested,
    seen,
    steps,
)

from lossleuth.causes.loss.loss_scale import CAUSE, judge
from lossleuth.causes.reasoning import MIN_EFFECT_NATS
from lossleuth.findings.finding import Finding
from lossleuth.findings.gradient import LogitGradient
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.findings.update import UpdateTruth
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status

UPDATE = UpdateTruth("SGD", "SGD", error=0.0, floor=1e-6, update_norm=1.0)


def backwards(*scales: float | None, cosine: float = 1.0) -> list[Finding]:
    return [LogitGradient(cosine, scale, count=100) for scale in scales]


def followed(*scales: float | None, cosine: float = 1.0) -> list[Finding]:
    """Backward passes of a step, and its update."""
    return [*backwards(*scales, cosine=cosine), UPDATE]


@pytest.mark.parametrize(
    ("scales", "inverse"), [((500.0,), 0.002), ((1.0, 1.0, 1.0, 1.0), 0.25), ((0.01,), 100.0)]
)
def test_a_factor_is_suspected_until_it_was_divided_by(
    scales: tuple[float, ...], inverse: float
) -> None:
    cure = Change.of("scale_gradient", factor=inverse)
    check_trial(judge, seen(*followed(*scales)), [cure], LOSS, min_effect=MIN_EFFECT_NATS)


def test_the_backward_pass_is_named_where_the_loss_has_no_line() -> None:
    nowhere = replace(TARGET_LINES, loss=None)
    assert judge(alternating([nowhere, *followed(500.0)])).where == BACKWARD


@pytest.mark.parametrize("scales", [(1.0,), (0.5, 0.5), (2.0,), (0.5,)])
def test_a_mean_and_a_weight_of_a_term_are_no_fault(scales: tuple[float, ...]) -> None:
    check_refuted(judge(seen(*followed(*scales))), "where 1 is expected")


def test_the_factor_of_a_gradient_scaler_is_taken_off() -> None:
    evidence = seen(*followed(65536.0), steps=steps(4, loss_scale=65536.0))
    check_refuted(judge(evidence), "1.000")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "no step was recorded"),
        (seen(*followed(5.0, cosine=0.3)), "does not point"),
        (seen(*followed(None)), "does not point"),
        (seen(UPDATE), "logit gradient could not be measured"),
    ],
    ids=["nothing", "another direction", "unknown", "no backward pass"],
)
def test_another_direction_than_cross_entropy_has_no_factor(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def test_backward_passes_without_an_update_are_not_a_step() -> None:
    check_untested(CAUSE.judged(seen(*backwards(0.1))), "does not point")


def test_an_update_by_a_rule_that_is_not_known_makes_a_step() -> None:
    unknown = replace(UPDATE, untested="no rule is known")
    evidence = seen(*backwards(0.1), unknown)
    assert CAUSE.judged(evidence).status is Status.SUSPECTED


def test_the_scale_of_each_step_is_its_own() -> None:
    recorded = steps(4, loss_scale=[1.0, 64.0, 32.0, 16.0])
    found = [RecordedStep(step.step, followed(step.loss_scale)) for step in recorded]
    check_refuted(judge(seen(steps=recorded, recorded=found)), "1.000")
