"""Micro-batches of unequal counts, averaged as equals."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import BACKWARD, alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.loss.accumulation_normalisation import CAUSE, CURE, judge
from lossleuth.findings.gradient import LogitGradient
from lossleuth.types.evidence import Evidence


def micro(*runs: tuple[float | None, int]) -> list[LogitGradient]:
    """Weight and count of each micro-batch."""
    return [LogitGradient(1.0, scale, count) for scale, count in runs]


def test_unequal_micro_batches_that_weigh_the_same_are_suspected_until_tried() -> None:
    fault = seen(*micro((0.5, 300), (0.5, 100)))
    check_trial(judge, fault, [CURE], BACKWARD)
    assert "100%" in judge(fault).because


def test_a_micro_batch_without_a_known_weight_is_left_out() -> None:
    check_refuted(judge(seen(*micro((None, 0), (0.5, 200), (0.5, 200)))))


@pytest.mark.parametrize(
    "runs", [((0.75, 300), (0.25, 100)), ((0.5, 200), (0.5, 200)), ((1.0, 200), (1.0, 201))]
)
def test_micro_batches_that_weigh_what_their_targets_do_are_sound(runs: Any) -> None:
    check_refuted(judge(seen(*micro(*runs))), "within")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (seen(*micro((1.0, 400))), "several backward passes"),
        (seen(), "logit gradient could not be measured"),
    ],
)
def test_a_step_of_one_backward_pass_shows_nothing(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def test_without_an_update_nothing_belongs_together() -> None:
    uneven = micro((0.5, 200), (0.5, 600))
    check_untested(CAUSE.judged(seen(*uneven, steps=[])), "no update")
    check_untested(CAUSE.judged(Evidence()), "no step was recorded")


def test_the_worst_recorded_step_counts() -> None:
    even, uneven = (micro((0.5, 200), (0.5, count)) for count in (200, 600))
    evidence = alternating(uneven, even)
    assert "100%" in judge(evidence).because
