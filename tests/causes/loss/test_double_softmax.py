"""Probabilities where scores belong."""

from __future__ import annotations

import math
from typing import Any

import pytest
from evidence import LOSS, alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.loss.double_softmax import judge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where

TRUE_LOSS = {"loss": 4.5, "vocabulary": 96}


def entering(gap: float | None, **given: Any) -> dict[str, Any]:
    return {"probability_gap": gap, "place": "train.py:18", "untested": None, **given}


def test_probabilities_that_enter_a_softmax_are_proven() -> None:
    found = ({"softmaxes": entering(gap), "true_loss": TRUE_LOSS} for gap in (1e-8, 1e-7))
    judgement = judge(alternating(*found))
    lowest = math.log(95 + math.e) - 1
    check_proven(judgement, LOSS, f"{lowest:.3f}", "96 classes", "within 1.0e-07 on 2")
    assert judgement.cure == Change.of("skip_softmax")


def test_the_first_of_the_two_softmaxes_is_named_where_it_is_known() -> None:
    evidence = seen(softmaxes=entering(1e-7, inner_place="model.py:44"), true_loss=TRUE_LOSS)
    check_proven(judge(evidence), Where("model.py", 44))


@pytest.mark.parametrize("gap", [None, 0.5], ids=["negative scores", "sums are not 1"])
def test_scores_are_no_probabilities(gap: float | None) -> None:
    check_refuted(judge(seen(softmaxes=entering(gap))), "3 of 3")


def test_scores_that_sum_to_one_by_accident_are_not_blamed() -> None:
    evidence = alternating({"softmaxes": entering(1e-9)}, {"softmaxes": entering(0.2)})
    check_refuted(judge(evidence), "1 of 2")


@pytest.mark.parametrize("evidence", [Evidence(), seen(softmaxes=entering(0.0, untested="none"))])
def test_without_a_softmax_it_is_untested(evidence: Evidence) -> None:
    check_untested(judge(evidence), "no softmax")
