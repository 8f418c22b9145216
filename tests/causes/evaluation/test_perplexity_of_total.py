"""Perplexities of other things than cross-entropy."""

from __future__ import annotations

import math
from typing import Any

import pytest
from evaluations import READ, evaluation, metric, number, printed, seen
from evidence import check_proven, check_refuted, check_untested

from lossleuth.causes.evaluation.perplexity_of_total import judge
from lossleuth.findings.evaluation import MetricValue
from lossleuth.types.judgement import Where
from lossleuth.types.observed import PrintedNumber


def other(value: float, **fields: Any) -> MetricValue:
    return number(value, kind="other", mean=None, **fields)


def perplexity(loss: float, digits: int = 6, line: int = 0) -> PrintedNumber:
    value = math.exp(loss)
    half = 0.5 * 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return printed(round(value / half / 2) * half * 2, half=half, digits=digits, line=line)


SMOOTHED = metric(other(2.4), other(2.6))


def test_the_exponential_of_a_smoothed_loss_is_proven() -> None:
    judgement = judge(seen(evaluation([SMOOTHED], printed(2.5), perplexity(2.5))))
    check_proven(judgement, READ, "12.1825", "2.5000", "2.0000", "7.38906", "may be fine")
    assert judgement.wrongness is not None and judgement.wrongness.expected == 2.0


def test_without_the_loss_beside_it_two_evaluations_are_needed() -> None:
    once = evaluation([SMOOTHED], perplexity(2.5, digits=4))
    check_untested(judge(seen(once)))
    twice = evaluation([SMOOTHED], perplexity(2.5, digits=4), step=100)
    check_proven(judge(seen(once, twice)), READ, "2 evaluations")


def test_a_smoothed_loss_printed_as_a_loss_is_not_blamed() -> None:
    check_untested(judge(seen(evaluation([SMOOTHED], printed(2.5)))), "1 evaluations")


def test_the_perplexity_of_the_cross_entropy_beside_a_smoothed_loss_is_sound() -> None:
    both = [SMOOTHED, metric(number(1.9), number(2.1), place="train.py:31")]
    given = (printed(2.5), printed(2.0), perplexity(2.0))
    check_refuted(judge(seen(evaluation(both, *given))), "plain cross-entropy")


def test_a_mean_of_means_is_somebody_elses_business() -> None:
    plain = metric(number(2.0, 900), number(3.0, 100))
    given = evaluation([plain], printed(2.5), perplexity(2.5), true=2.1)
    check_refuted(judge(seen(given)), "plain cross-entropy")


def test_an_exponential_that_the_program_takes_itself_needs_no_print() -> None:
    own = metric(other(math.exp(2.5), is_exponential=True))
    check_proven(judge(seen(evaluation([own]))), READ, "2.5000")


def test_the_exponential_of_an_entropy_is_no_perplexity() -> None:
    entropy = metric(other(math.exp(2.5), is_exponential=True, next_explained=0.4))
    assert judge(seen(evaluation([entropy]))).status.value == "refuted"
    plain = metric(other(2.5, next_explained=0.4))
    given = (printed(2.5), perplexity(2.5))
    assert judge(seen(evaluation([plain], *given))).status.value == "untested"


def test_a_sum_of_two_terms_with_weights_is_recognised() -> None:
    divergence = metric(other(9.1076), place="train.py:30")
    smoothed = metric(other(8.4359), place="train.py:31")
    total = 2.0 * 9.1076 + 0.3 * 8.4359
    given = (printed(round(total, 4), digits=6), perplexity(total, digits=4))
    judgement = judge(seen(evaluation([divergence, smoothed], *given, true=8.43)))
    check_proven(judgement, Where("train.py", 31), "2 times 9.1076", "0.3 times 8.4359")


def test_an_exponential_of_something_unknown_is_untested() -> None:
    given = (printed(3.3333), perplexity(3.3333))
    check_untested(judge(seen(evaluation([SMOOTHED], *given))), "was not found")


def test_a_cap_below_the_true_loss_is_proven() -> None:
    high = metric(number(25.0))
    given = evaluation([high], perplexity(20.0), true=25.0)
    check_proven(judge(seen(given)), READ, "capped at 20")
    below = evaluation([metric(number(2.0))], perplexity(20.0))
    check_untested(judge(seen(below)), "not known")


def test_a_smoothed_loss_that_is_the_true_one_is_not_blamed() -> None:
    near = evaluation([SMOOTHED], printed(2.5), perplexity(2.5), true=2.495)
    assert judge(seen(near)).status.value in ("refuted", "untested")


@pytest.mark.parametrize("true", [None, math.nan])
def test_without_a_true_loss_it_is_untested(true: float | None) -> None:
    check_untested(judge(seen(evaluation([SMOOTHED], true=true))))
