"""Where texts end and padding begins."""

from __future__ import annotations

import torch

from lossleuth.tape.roles.padding import padding_of, past_the_end


def test_rows_end_where_nothing_but_one_token_follows() -> None:
    tokens = torch.tensor([[5, 6, 0, 0, 0], [7, 5, 6, 8, 9], [8, 9, 7, 0, 0]])
    token, past = past_the_end(tokens)
    assert token == 0
    assert past.sum(1).tolist() == [3, 0, 2]


def test_rows_that_all_end_alike_are_not_padded() -> None:
    token, past = past_the_end(torch.tensor([[5, 6, 0, 0], [7, 5, 0, 0], [8, 9, 0, 0]]))
    assert token is None and not past.any()


def test_a_token_that_stands_within_texts_too_is_no_padding() -> None:
    token, past = past_the_end(torch.tensor([[5, 0, 6, 0, 0], [7, 0, 0, 0, 0], [0, 9, 8, 0, 0]]))
    assert token is None and not past.any()


def test_rows_may_be_filled_up_at_their_beginning() -> None:
    tokens = torch.tensor([[5, 6, 0, 0, 0], [7, 5, 6, 8, 9], [8, 9, 7, 0, 0]])
    for given, filled in ((tokens, [3, 0, 2]), (tokens.flip(1), [3, 0, 2])):
        token, where = padding_of(given)
        assert token == 0
        assert where.sum(1).tolist() == filled
        assert bool((given[where] == 0).all())
