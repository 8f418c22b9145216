"""From the numbers of batches to what was printed."""

from __future__ import annotations

import math

import pytest
from evaluations import evaluation, metric, number, printed, seen

from lossleuth.causes.reported_numbers import (
    Match,
    cross_entropies,
    exponential,
    is_finite,
    is_reported,
    means_of,
    measured,
    nothing_measured,
    over_tokens,
    printed_as,
    repeated,
    sets_of,
    sound,
)
from lossleuth.findings.evaluation import MetricValue
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status


def test_means_by_batch_text_and_token_differ() -> None:
    made = means_of([number(1.0, 9, texts=1), number(3.0, 1, texts=3)])
    assert made is not None
    assert (made.by_batch, made.by_text, made.by_token) == (2.0, 2.5, 1.2)


def test_sums_are_divided_by_what_they_are_sums_of() -> None:
    made = means_of([number(9.0, 9, kind="sum"), number(3.0, 1, kind="sum")])
    assert made is not None and made.by_token == 1.2


@pytest.mark.parametrize("numbers", [[], [number(float("nan"), 4)], [number(1.0, 0)]])
def test_of_nothing_no_mean_is_made(numbers: list[MetricValue]) -> None:
    assert means_of(numbers) is None


def test_batches_of_several_sets_are_also_taken_set_by_set() -> None:
    parts = [made.part for made in sets_of([number(1.0, 4)] * 6)]
    assert parts == [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("value", "is_there"), [(2.34564, True), (2.34556, True), (2.3454, False), (2.3458, False)]
)
def test_a_number_is_printed_to_its_last_digit(value: float, is_there: bool) -> None:
    assert bool(printed_as(evaluation([], printed(2.3456)), value)) is is_there


def test_numbers_of_few_digits_do_not_count() -> None:
    assert not printed_as(evaluation([], printed(2.3, half=0.05, digits=2)), 2.3)


def test_a_metric_is_reported_if_it_is_read_or_its_mean_is_printed() -> None:
    unread = metric(number(2.0, 4), number(3.0, 4), read=False)
    assert not is_reported(evaluation([unread]), unread)
    assert is_reported(evaluation([unread], printed(2.5, digits=5)), unread)
    assert is_reported(evaluation([unread], printed(12.1825, digits=6)), unread)
    assert is_reported(evaluation([]), metric(number(2.0, 4)))


def test_only_cross_entropies_are_compared() -> None:
    other = metric(number(2.0, 4, kind="other"), number(2.0, 4))
    plain = metric(number(2.0, 4))
    found = list(cross_entropies([evaluation([other, plain])]))
    assert [reported.metric for reported in found] == [plain]
    assert [list(reported.numbers) for reported in found] == [plain.numbers]


def test_what_is_found_once_may_be_chance() -> None:
    once, twice = ("a",), ("b",)
    found = [
        Match(once, 1, False, "x"),
        Match(twice, 1, False, "y"),
        Match(twice, 2, False, "z"),
    ]
    assert repeated(found) == ["y", "z"]
    assert repeated(found[:2]) == []
    assert repeated([Match(once, 1, True, "x")]) == ["x"]


def test_what_was_not_seen_to_its_end_is_not_sound() -> None:
    whole, cut = (evaluation([metric(number(2.0, 4))], whole=w) for w in (True, False))
    assert sound("all 3 are", seen(whole, cut)).status is Status.REFUTED
    assert sound("all 3 are", seen(cut)).status is Status.UNTESTED


def test_what_was_not_measured_has_a_reason() -> None:
    failed = seen(evaluation([], untested="it has too many scores"))
    assert "too many scores" in nothing_measured(failed).because
    assert measured(failed) == []
    assert nothing_measured(Evidence()).because == "no evaluation was recorded"


def test_the_batches_before_a_failure_are_measured() -> None:
    """An evaluation that became too large is untested as a whole; its numbers stand."""
    partly = evaluation([metric(number(2.0, 4))], untested="it has too many scores", whole=False)
    assert measured(seen(partly)) == [partly]


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_no_number_is_not_finite(value: float | None) -> None:
    assert not is_finite(value)
    assert is_finite(0.0)


def test_tokens_weigh_the_same_and_exponentials_stay_finite() -> None:
    assert over_tokens([(1.0, 9), (3.0, 1)]) == 1.2
    assert exponential(1e6) > 1e300
