"""Metrics at another offset than the loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evaluations import ALIGNED, READ, evaluation, metric, number, seen
from evidence import check_proven, check_refuted, check_untested

from lossleuth.causes.evaluation.metric_offset import CAUSE, judge
from lossleuth.findings.evaluation import Accuracy
from lossleuth.types.judgement import Where

SHIFTED = number(6.0, offset=2, next_explained=0.02, aligned=2.0)


def accuracy(offset: int) -> Accuracy:
    return Accuracy(
        value=0.02,
        aligned=0.4,
        count=64,
        offset=offset,
        explained=1.0,
        next_explained=1.0 if offset == 1 else 0.03,
        place="train.py:31",
    )


def test_a_loss_that_is_shifted_twice_is_proven() -> None:
    judgement = judge(seen(evaluation([metric(SHIFTED, SHIFTED)])))
    check_proven(judgement, READ, "offset 2", "6.0000 instead of 2.0000", "may be fine")
    assert judgement.wrongness is not None and judgement.wrongness.value == 2.0


def test_an_accuracy_that_is_not_shifted_is_proven_though_the_loss_is() -> None:
    guessed = evaluation([metric(number(2.0))], accuracies=[accuracy(0)])
    judgement = judge(seen(guessed))
    check_proven(judgement, Where("train.py", 31), "offset 0", "0.0200 instead of 0.4000")


def test_an_accuracy_without_any_loss_is_enough() -> None:
    check_proven(judge(seen(evaluation([], accuracies=[accuracy(0)]))), Where("train.py", 31))


def test_metrics_at_the_offset_of_the_loss_are_sound() -> None:
    right = evaluation([metric(number(2.0))], accuracies=[accuracy(1)])
    check_refuted(judge(seen(right)), "2 of 2")


def test_heads_that_look_further_ahead_are_not_blamed() -> None:
    heads = [metric(number(2.0)), metric(SHIFTED, place="train.py:31")]
    check_refuted(judge(seen(evaluation(heads))), "1 of 2")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"offset": 2}, "was not seen to compare"),
        ({"supervised": 7}, "was not seen to compare"),
        ({"untested": "no tokens were found"}, "no tokens were found"),
    ],
)
def test_without_a_loss_at_the_next_token_it_is_untested(
    fields: dict[str, Any], reason: str
) -> None:
    evidence = seen(evaluation([metric(SHIFTED)]), found=[replace(ALIGNED, **fields)])
    check_untested(CAUSE.judged(evidence), reason)


def test_without_an_evaluation_it_is_untested() -> None:
    check_untested(CAUSE.judged(seen()), "no evaluation")


@pytest.mark.parametrize(
    "fields", [{"explained": 0.9}, {"next_explained": 0.95}, {"count": 8}, {"offset": None}]
)
def test_what_is_not_clear_is_not_blamed(fields: dict[str, Any]) -> None:
    unclear = number(6.0, **({"offset": 2, "next_explained": 0.02} | fields))
    judgement = judge(seen(evaluation([metric(unclear)])))
    assert judgement.status.value in ("refuted", "untested")
