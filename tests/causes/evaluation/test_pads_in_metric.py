"""Padding in what is reported."""

from __future__ import annotations

from evaluations import READ, evaluation, metric, number, printed, seen
from evidence import check_proven, check_refuted, check_untested

from lossleuth.causes.evaluation.pads_in_metric import judge
from lossleuth.types.judgement import Status

PADDED = number(3.0, 100, pads=40, unpadded=2.0)


def test_padding_that_counts_is_proven() -> None:
    judgement = judge(seen(evaluation([metric(PADDED)])))
    check_proven(judgement, READ, "40%", "3.0000", "2.0000", "may be fine")
    assert judgement.wrongness is not None and judgement.wrongness.expected == 2.0


def test_a_number_that_nobody_reads_counts_where_its_mean_is_printed() -> None:
    unread = metric(PADDED, PADDED, read=False)
    check_untested(judge(seen(evaluation([unread]))), "no reported number")
    check_proven(judge(seen(evaluation([unread], printed(3.0)))), READ, "40%")


def test_metrics_without_padding_are_sound() -> None:
    check_refuted(judge(seen(evaluation([metric(number(2.0))]))), "1 reported numbers")


def test_little_padding_or_little_difference_is_benign() -> None:
    for few in (number(3.0, pads=3, unpadded=2.0), number(3.0, pads=40, unpadded=2.999)):
        assert judge(seen(evaluation([metric(few)]))).status is Status.BENIGN


def test_a_number_beside_the_right_one_is_benign() -> None:
    both = evaluation([metric(PADDED), metric(number(2.0), place="train.py:31")])
    assert judge(seen(both)).status is Status.BENIGN


def test_other_losses_are_untested() -> None:
    check_untested(judge(seen(evaluation([metric(number(2.0, kind="other"))]))))
