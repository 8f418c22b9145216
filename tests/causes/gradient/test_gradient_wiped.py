"""Gradients that are gone at the update."""

from __future__ import annotations

import pytest
from evidence import UPDATE, alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.gradient.gradient_wiped import CAUSE, CURE, judge
from lossleuth.findings.update import GradientEdits
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status


def edited(wiped: int, left: int = 50) -> GradientEdits:
    return GradientEdits(factor=1.0, others=(), left=left, wiped=wiped)


@pytest.mark.parametrize(("wiped", "share"), [(50, "100%"), (1, "2%")])
def test_wiped_gradients_are_suspected_until_kept(wiped: int, share: str) -> None:
    fault = seen(edited(wiped))
    check_trial(judge, fault, [CURE], UPDATE)
    assert share in judge(fault).because


@pytest.mark.parametrize("left", [50, 0], ids=["all used", "none there"])
def test_gradients_that_are_used_are_sound(left: int) -> None:
    check_refuted(judge(seen(edited(0, left))), "0% wiped")


def test_a_part_that_is_zeroed_now_and_then_is_not_blamed() -> None:
    check_refuted(judge(alternating([edited(50)], [edited(0)])))


@pytest.mark.parametrize(
    ("evidence", "words"),
    [(Evidence(), "no step was recorded"), (seen(), "gradient edits could not be measured")],
    ids=["nothing", "no update"],
)
def test_without_an_update_it_is_untested(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def test_what_is_left_now_and_then_only_is_suspected() -> None:
    fault = alternating([edited(50)], [edited(50)], [edited(0)], [edited(50)])
    assert judge(fault).status is Status.SUSPECTED
    assert "on 3 of 4 recorded steps" in judge(fault).because


def test_what_is_wiped_on_every_step_is_counted() -> None:
    judgement = judge(alternating([edited(50)], [edited(10)]))
    assert judgement.because.startswith("20%")
    assert judgement.wrongness is not None and judgement.wrongness.value == 0.2
