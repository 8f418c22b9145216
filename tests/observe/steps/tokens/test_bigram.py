"""What the seen tokens allow."""

from __future__ import annotations

import math

import torch

from lossleuth.observe.steps.tokens.bigram import MAX_PAIRS, TokenPairs


def test_a_token_that_tells_the_next_leaves_nothing_to_know() -> None:
    pairs = TokenPairs()
    pairs.add(torch.arange(400).remainder(8).reshape(10, 40))
    floors = pairs.floors()
    assert math.isclose(floors["unigram"], math.log(8), rel_tol=1e-2)
    assert abs(floors["bigram"]) < 1e-9


def test_independent_tokens_are_no_better_known_in_pairs() -> None:
    tokens = torch.randint(0, 4, (50, 2001), generator=torch.Generator().manual_seed(0))
    pairs = TokenPairs()
    for row in tokens:
        pairs.add(row)
    floors = pairs.floors()
    assert abs(floors["bigram"] - floors["unigram"]) < 1e-3
    assert floors["pairs"] == 100_000


def test_pairs_that_were_hardly_seen_twice_say_nothing() -> None:
    pairs = TokenPairs()
    pairs.add(torch.arange(1000))
    assert set(pairs.floors()) == {"pairs", "unigram"}


def test_rows_do_not_run_into_each_other_and_padding_does_not_count() -> None:
    pairs = TokenPairs()
    pairs.add(torch.tensor([[1, 2, -100], [3, 1, -100]]))
    pairs.add(torch.tensor(7))
    pairs.add(torch.zeros(3, 1, dtype=torch.int32))
    assert pairs.floors()["pairs"] == 2
    assert TokenPairs().floors() == {}


def test_no_more_is_kept_than_is_needed() -> None:
    pairs = TokenPairs()
    for _ in range(3):
        pairs.add(torch.zeros(2, MAX_PAIRS // 2, dtype=torch.int16))
    assert pairs.floors()["pairs"] == MAX_PAIRS


def test_what_was_counted_early_and_late_is_the_same_as_all_at_once() -> None:
    rows = torch.randint(0, 9, (50, 12), generator=torch.Generator().manual_seed(3))
    one, many = TokenPairs(), TokenPairs()
    one.add(rows)
    for row in rows:
        many.add(row)
    assert one.floors() == many.floors()
