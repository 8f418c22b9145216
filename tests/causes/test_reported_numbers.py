"""From the numbers of batches to what was printed."""

from __future__ import annotations

from typing import Any

import pytest
from evaluations import evaluation, metric, number, printed

from lossleuth.causes.reported_numbers import (
    aggregates,
    cross_entropies,
    exponential,
    is_reported,
    measured,
    nothing_measured,
    over_tokens,
    printed_as,
    repeated,
    sets_of,
    sound,
)
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status


def test_means_by_batch_text_and_token_are_told_apart() -> None:
    made = aggregates([number(1.0, 9, texts=1), number(3.0, 1, texts=3)])
    assert made is not None
    assert (made.by_batch, made.by_text, made.by_token) == (2.0, 2.5, 1.2)


def test_sums_are_divided_by_what_they_are_sums_of() -> None:
    made = aggregates([number(9.0, 9, kind="sum"), number(3.0, 1, kind="sum")])
    assert made is not None and made.by_token == 1.2


@pytest.mark.parametrize("numbers", [[], [number(float("nan"), 4)], [number(1.0, 0)]])
def test_of_nothing_no_mean_is_made(numbers: list[dict[str, Any]]) -> None:
    assert aggregates(numbers) is None


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
    assert [m for _, m, _ in found] == [plain]


def test_chance_is_told_from_what_is_found_again_by_the_same() -> None:
    once, twice = ("a",), ("b",)
    found = [(once, 1, False, "x"), (twice, 1, False, "y"), (twice, 2, False, "z")]
    assert repeated(found) == ["y", "z"]
    assert repeated(found[:2]) == []
    assert repeated([(once, 1, True, "x")]) == ["x"]


def test_what_was_not_seen_to_its_end_is_not_sound() -> None:
    whole, cut = evaluation([metric(number(2.0, 4))]), evaluation([metric(number(2.0, 4))])
    cut["whole"] = False
    assert sound("all 3 are", Evidence(evaluations=[whole, cut])).status is Status.REFUTED
    assert sound("all 3 are", Evidence(evaluations=[cut])).status is Status.UNTESTED


def test_the_reason_for_nothing_is_told() -> None:
    failed = evaluation([]) | {"untested": "it has too many scores"}
    assert "too many scores" in nothing_measured(Evidence(evaluations=[failed])).because
    assert measured(Evidence(evaluations=[failed])) == []


def test_tokens_weigh_the_same_and_exponentials_stay_finite() -> None:
    assert over_tokens([number(1.0, 9), number(3.0, 1)], "mean") == 1.2
    assert exponential(1e6) > 1e300
