"""A number is read, and another one is followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from evidence import BACKWARD, UPDATE, alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.loss.loss_disconnected import CAUSE, CURE, judge
from lossleuth.findings.finding import Finding
from lossleuth.findings.gradient import LogitGradient, ReportedNumber
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.no_autograd import HandGradient
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where


def read(*cosines: float | None) -> list[Finding]:
    return [ReportedNumber("train.py:30", cosine) for cosine in cosines]


def made_by_hand(*cosines: float) -> list[Finding]:
    return [HandGradient(None, 0.5, 1e-6, cosine) for cosine in cosines]


def followed(cosine: float) -> list[Finding]:
    return [LogitGradient(cosine, 1.0, count=512)]


@pytest.mark.parametrize("found", [read(0.02), read(0.0, -0.9), made_by_hand(0.1)])
def test_another_gradient_than_that_of_what_is_read_is_suspected_until_tried(
    found: Sequence[Finding],
) -> None:
    check_trial(judge, seen(*found), [CURE], BACKWARD)


def test_the_usual_cosine_counts_and_an_early_agreement_does_not() -> None:
    judgement = judge(alternating(read(0.6), read(0.3), read(0.1)))
    assert "0.300" in judgement.because
    assert judgement.wrongness is not None and judgement.wrongness.value == 0.3


def test_a_loss_that_is_followed_upside_down_is_for_another() -> None:
    check_refuted(judge(seen(*read(-1.0))), "ascent")


def test_a_gradient_made_by_hand_is_named_where_it_is_used() -> None:
    by_hand = seen(*made_by_hand(0.1))
    taken = [replace(step, places={"update": "train.py:20"}) for step in by_hand.steps]
    assert judge(replace(by_hand, steps=taken)).where == UPDATE


def test_the_line_that_reads_is_named_where_no_backward_pass_is_known() -> None:
    assert judge(replace(seen(*read(0.0)), steps=[])).where == Where("train.py", 30)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (read(1.0), "1.0000"),
        (read(0.0, 0.98), "0.9800"),
        (made_by_hand(0.99, 0.0), "0.9900"),
        (followed(0.97), "0.970"),
    ],
    ids=["the loss", "a metric beside the loss", "by hand", "cross-entropy, nothing read"],
)
def test_a_loss_that_is_read_and_followed_is_sound(found: Sequence[Finding], word: str) -> None:
    check_refuted(judge(seen(*found)), "expected 1", word)


def test_one_term_that_leads_at_times_is_not_blamed() -> None:
    check_refuted(judge(alternating(read(0.1), read(0.8))), "0.8000")


@pytest.mark.parametrize("found", [[], read(None), followed(0.1)])
def test_without_a_number_that_is_read_it_is_untested(found: Sequence[Finding]) -> None:
    check_untested(CAUSE.judged(seen(*found)), "no number")
    check_untested(CAUSE.judged(Evidence()), "no number")


def test_a_script_that_reads_nothing_may_be_healthy_without_it() -> None:
    assert CAUSE.is_core(seen(*read(0.5)))
    assert not CAUSE.is_core(seen())


def beside(cosine: float, *losses: float) -> Evidence:
    """A term that is read and followed, and beside it the cross-entropy."""
    steps = [
        [*read(1.0), ReportedNumber("train.py:31", cosine, loss), TrueLoss(loss, 96, 96, 1.0)]
        for loss in losses
    ]
    known = alternating(*steps)
    return replace(known, steps=[replace(step, unigram=3.4) for step in known.steps])


def test_a_cross_entropy_that_stands_still_beside_a_term_that_is_followed_is_suspected() -> None:
    left = beside(0.08, 3.96, 3.95, 3.96)
    check_trial(judge, left, [CURE], BACKWARD)
    assert "cosine of 0.080" in judge(left).because


@pytest.mark.parametrize(
    "evidence",
    [beside(0.9, 3.96, 3.95, 3.96), beside(0.08, 3.96, 3.5, 3.2), beside(0.08, 3.96)],
    ids=["it is followed", "it falls", "it was read once"],
)
def test_a_term_beside_a_cross_entropy_that_is_followed_or_learnt_is_sound(
    evidence: Evidence,
) -> None:
    check_refuted(judge(evidence), "1.0000")
