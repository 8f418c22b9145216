"""Dropout in an evaluation."""

from __future__ import annotations

from evaluations import READ, evaluation, metric, number, seen
from evidence import check_proven, check_refuted, check_untested

from lossleuth.causes.evaluation.metric_train_mode import judge
from lossleuth.types.judgement import Status

DROPPED = number(2.3, undropped=2.1)


def test_dropout_in_all_batches_is_proven() -> None:
    judgement = judge(seen(evaluation([metric(DROPPED, DROPPED)])))
    check_proven(judgement, READ, "all of 2", "2.3000", "2.1000", "may be fine")
    assert judgement.wrongness is not None and judgement.wrongness.expected == 2.1


def test_dropout_in_some_batches_looks_meant() -> None:
    judgement = judge(seen(evaluation([metric(DROPPED, number(2.0))])))
    assert judgement.status is Status.BENIGN


def test_dropout_that_hardly_shows_is_benign() -> None:
    judgement = judge(seen(evaluation([metric(number(2.3, undropped=2.299))])))
    assert judgement.status is Status.BENIGN
    assert "2.2990" in judgement.because


def test_nothing_dropped_is_sound() -> None:
    check_refuted(judge(seen(evaluation([metric(number(2.0))]))), "1 reported numbers")


def test_numbers_that_nobody_reads_are_untested() -> None:
    check_untested(judge(seen(evaluation([metric(DROPPED, read=False)]))))
