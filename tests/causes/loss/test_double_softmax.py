"""Probabilities where scores belong."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from evidence import LOSS, alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.loss.double_softmax import CAUSE, judge
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Softmaxes
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where

TRUE_LOSS = TrueLoss(4.5, 512, 96, logits_std=1.0)


def entering(gap: float | None) -> Softmaxes:
    return Softmaxes(gap, classes_in_place=1.0, place="train.py:18", crossed=())


def test_probabilities_that_enter_a_softmax_are_proven() -> None:
    judgement = judge(alternating(*([entering(gap), TRUE_LOSS] for gap in (1e-8, 1e-7))))
    lowest = math.log(95 + math.e) - 1
    check_proven(judgement, LOSS, f"{lowest:.3f}", "96 classes", "within 1.0e-07 on 2")
    assert judgement.cure == Change.of("skip_softmax")


def test_the_first_of_the_two_softmaxes_is_named_where_it_is_known() -> None:
    found = replace(entering(1e-7), inner_place="model.py:44")
    check_proven(judge(seen(found, TRUE_LOSS)), Where("model.py", 44))


@pytest.mark.parametrize("gap", [None, 0.5], ids=["negative scores", "sums are not 1"])
def test_scores_are_no_probabilities(gap: float | None) -> None:
    check_refuted(judge(seen(entering(gap))), "3 of 3")


def test_scores_that_sum_to_one_by_accident_are_not_blamed() -> None:
    evidence = alternating([entering(1e-9)], [entering(0.2)])
    check_refuted(judge(evidence), "1 of 2")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "no step was recorded"),
        (seen(replace(entering(0.0), untested="no softmax of a loss")), "no softmax of a loss"),
    ],
)
def test_without_a_softmax_it_is_untested(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)
