"""Means of unequal batches."""

from __future__ import annotations

import pytest
from evaluations import READ, evaluation, metric, number, printed, seen
from evidence import check_proven, check_refuted, check_untested

from lossleuth.causes.evaluation.mean_of_means import CAUSE, judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status
from lossleuth.types.observed import PrintedNumber

# The mean of means is 2.5, that over all tokens 2.1.
UNEQUAL = metric(number(2.0, 900), number(3.0, 100))


def test_a_printed_mean_of_unequal_means_is_proven() -> None:
    judgement = judge(seen(evaluation([UNEQUAL], printed(2.5))))
    check_proven(judgement, READ, "2.5000", "2.1000", "100 to 900 tokens", "may be fine")
    assert judgement.wrongness is not None
    assert (judgement.wrongness.value, judgement.wrongness.expected) == (2.5, 2.1)


def test_its_exponential_proves_it_as_well() -> None:
    check_proven(judge(seen(evaluation([UNEQUAL], printed(12.1825, digits=6)))), READ, "2.5000")


def test_a_number_that_the_program_made_of_all_batches_needs_no_print() -> None:
    whole = number(2.5, 1000, batches=(0, 1), evenly=2.1)
    check_proven(judge(seen(evaluation([metric(whole)]))), READ, "2.5000", "2.1000")


def test_weights_of_ones_own_choice_are_no_mean_of_means() -> None:
    chosen = number(2.5, 1000, batches=(0, 1), evenly=2.1, by_batch=2.4, by_text=2.3)
    check_refuted(judge(seen(evaluation([metric(chosen)]))))


def test_of_many_numbers_one_is_like_a_printed_one_by_chance() -> None:
    many = [metric(number(2.0 + i / 7, 900), number(3.0, 100)) for i in range(5)]
    check_untested(judge(seen(evaluation(many, printed(2.5)))), "no printed number")


def test_four_digits_of_two_numbers_in_two_evaluations_prove_nothing() -> None:
    other = metric(number(2.2, 900), number(3.2, 100), place="train.py:31")
    twice = [printed(value, half=5e-4, digits=4) for value in (2.5, 2.7)]
    first, second = (evaluation([UNEQUAL, other], p, step=i) for i, p in enumerate(twice, 1))
    check_untested(judge(seen(first, second)))


@pytest.mark.parametrize(("half", "digits"), [(0.005, 3), (5e-4, 4)])
def test_few_digits_prove_it_only_when_seen_twice(half: float, digits: int) -> None:
    short = printed(2.5, half=half, digits=digits)
    once = evaluation([UNEQUAL], short)
    check_untested(judge(seen(once)))
    check_proven(judge(seen(once, evaluation([UNEQUAL], short, step=100))), READ, "2 evaluations")


@pytest.mark.parametrize("right", [printed(2.1), printed(8.1662, digits=5)])
def test_the_mean_over_all_tokens_is_sound(right: PrintedNumber) -> None:
    check_refuted(judge(seen(evaluation([UNEQUAL], right))), "1 evaluations")


def test_the_right_mean_beside_the_wrong_one_is_sound() -> None:
    check_refuted(judge(seen(evaluation([UNEQUAL], printed(2.1), printed(2.5)))))


def test_equal_batches_are_sound() -> None:
    equal = metric(number(2.0, 100), number(3.0, 100))
    check_refuted(judge(seen(evaluation([equal], printed(2.5)))), "equally many")


def test_sums_over_tokens_are_sound() -> None:
    sums = metric(number(1800.0, 900, kind="sum"), number(300.0, 100, kind="sum"))
    check_refuted(judge(seen(evaluation([sums], printed(2.1)))))


def test_a_number_that_nobody_printed_is_untested() -> None:
    check_untested(judge(seen(evaluation([UNEQUAL], printed(7.77777)))), "no printed number")


def test_a_difference_that_nobody_would_see_is_benign() -> None:
    close = metric(number(2.0, 900), number(2.01, 100))
    judgement = judge(seen(evaluation([close], printed(2.005))))
    assert judgement.status is Status.BENIGN
    assert "0.004 nats" in judgement.because


def test_without_an_evaluation_it_is_untested() -> None:
    check_untested(CAUSE.judged(Evidence()), "no evaluation")
    # Evaluations between steps are in no recorded step.
    check_proven(CAUSE.judged(seen(evaluation([UNEQUAL], printed(2.5)), found=())), READ)


def test_an_evaluation_that_was_cut_short_is_not_judged_by_its_beginning() -> None:
    cut = evaluation([UNEQUAL], printed(2.5), whole=False)
    check_untested(judge(seen(cut)))
