"""A number is read, and another one is followed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import BACKWARD, UPDATE, alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.loss.loss_disconnected import CURE, judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where


def read(*cosines: float | None) -> dict[str, Any]:
    return {"reported": [{"cosine": c, "place": "train.py:30"} for c in cosines]}


@pytest.mark.parametrize(
    "found", [read(0.02), read(0.0, -0.9), {"hand_gradients": [{"cosine": 0.1}]}]
)
def test_another_gradient_than_that_of_what_is_read_is_suspected_until_tried(found: Any) -> None:
    check_trial(judge, seen(**found), [CURE], BACKWARD)


def test_the_usual_cosine_is_told_and_an_early_agreement_does_not_count() -> None:
    judgement = judge(alternating(read(0.6), read(0.3), read(0.1)))
    assert "0.300" in judgement.because
    assert judgement.wrongness is not None and judgement.wrongness.value == 0.3


def test_a_loss_that_is_followed_upside_down_is_for_another() -> None:
    check_refuted(judge(seen(**read(-1.0))), "ascent")


def test_a_gradient_made_by_hand_is_named_where_it_is_used() -> None:
    by_hand = seen(hand_gradients=[{"cosine": 0.1}])
    taken = [{**step, "places": {"update": "train.py:20"}} for step in by_hand.steps]
    assert judge(replace(by_hand, steps=taken)).where == UPDATE


def test_the_line_that_reads_is_named_where_no_backward_pass_is_known() -> None:
    assert judge(replace(seen(**read(0.0)), steps=[])).where == Where("train.py", 30)


@pytest.mark.parametrize(
    "found",
    [
        read(1.0),
        read(0.0, 0.98),
        {"hand_gradients": [{"cosine": 0.99}, {"cosine": 0.0}]},
        {"logit_gradients": [{"cosine": 0.97}]},
    ],
    ids=["the loss", "a metric beside the loss", "by hand", "cross-entropy, nothing read"],
)
def test_a_loss_that_is_read_and_followed_is_sound(found: Any) -> None:
    check_refuted(judge(seen(**found)), "expected 1" if "hand" not in str(found) else "0.99")


def test_one_term_that_leads_at_times_is_not_blamed() -> None:
    check_refuted(judge(alternating(read(0.1), read(0.8))), "0.8000")


@pytest.mark.parametrize(
    "found", [{}, read(None), {"logit_gradients": [{"cosine": 0.1}]}, {"reported": []}]
)
def test_without_a_number_that_is_read_it_is_untested(found: Any) -> None:
    check_untested(judge(seen(**found)), "no number")
    check_untested(judge(Evidence()), "no number")
