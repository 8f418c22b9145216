"""Micro-batches of unequal counts, averaged as equals."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import BACKWARD, alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.loss.accumulation_normalisation import CURE, judge
from lossleuth.types.evidence import Evidence


def micro(*runs: tuple[float | None, int]) -> list[dict[str, Any]]:
    """Weight and count of each micro-batch."""
    return [{"scale": scale, "count": count, "cosine": 1.0} for scale, count in runs]


def test_unequal_micro_batches_that_weigh_the_same_are_suspected_until_tried() -> None:
    fault = seen(logit_gradients=micro((0.5, 300), (0.5, 100)))
    check_trial(judge, fault, [CURE], BACKWARD)
    assert "100%" in judge(fault).because


def test_a_micro_batch_without_a_known_weight_is_left_out() -> None:
    check_refuted(judge(seen(logit_gradients=micro((None, 0), (0.5, 200), (0.5, 200)))))


@pytest.mark.parametrize(
    "runs", [((0.75, 300), (0.25, 100)), ((0.5, 200), (0.5, 200)), ((1.0, 200), (1.0, 201))]
)
def test_micro_batches_that_weigh_what_their_targets_do_are_sound(runs: Any) -> None:
    check_refuted(judge(seen(logit_gradients=micro(*runs))), "within")


@pytest.mark.parametrize(
    "evidence", [seen(logit_gradients=micro((1.0, 400))), seen(logit_gradients=[])]
)
def test_a_step_of_one_backward_pass_tells_nothing(evidence: Evidence) -> None:
    check_untested(judge(evidence), "several backward passes")


def test_without_an_update_nothing_belongs_together() -> None:
    uneven = micro((0.5, 200), (0.5, 600))
    check_untested(judge(seen(steps=[], logit_gradients=uneven)), "no update")
    check_untested(judge(Evidence()), "no update")


def test_the_worst_recorded_step_counts() -> None:
    even, uneven = (micro((0.5, 200), (0.5, count)) for count in (200, 600))
    evidence = alternating({"logit_gradients": uneven}, {"logit_gradients": even})
    assert "100%" in judge(evidence).because
