"""Fingerprints and counts of integer tensors."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.native import library as native
from lossleuth.native.tokens import TokenFingerprint, count_supervised, token_fingerprint

INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
MASK = 2**64 - 1


def slow_fingerprint(rows: list[list[int]]) -> TokenFingerprint:
    """Python integers, one token at a time."""
    tokens = [token for row in rows for token in row]
    hashed = 0
    for position, token in enumerate(tokens, 1):
        word = (token + position * 0x9E3779B97F4A7C15) & MASK
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & MASK
        word = (word ^ word >> 27) * 0x94D049BB133111EB & MASK
        hashed = (hashed + (word ^ word >> 31)) & MASK
    width = len(rows[0])
    ascending = all(row == list(range(row[0], row[0] + width)) for row in rows)
    return TokenFingerprint(hashed, len(tokens), max(tokens), min(tokens), ascending and width > 1)


tables = st.tuples(st.integers(1, 5), st.integers(1, 20)).flatmap(
    lambda shape: st.lists(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)


@given(tables)
def test_the_library_and_numpy_give_the_slow_hash(rows: list[list[int]]) -> None:
    expected = slow_fingerprint(rows)
    assert token_fingerprint(torch.tensor(rows)) == expected
    with mock.patch.object(native, "load", lambda: None):
        assert token_fingerprint(torch.tensor(rows)) == expected


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_integer_type_does_not_matter(kernels: str, dtype: torch.dtype) -> None:
    rows = torch.tensor([[1, 0, 1], [0, 0, 1]])
    assert token_fingerprint(rows.to(dtype)) == slow_fingerprint(rows.tolist())


def test_order_values_and_length_matter(kernels: str) -> None:
    hashes = {
        token_fingerprint(torch.tensor(tokens)).hash
        for tokens in ([1, 2, 3], [3, 2, 1], [1, 2, 4], [1, 2, 3, 0], [0, 1, 2, 3], [1, 2])
    }
    assert len(hashes) == 6


def test_a_view_is_read_in_its_own_order(kernels: str) -> None:
    table = torch.arange(24).reshape(4, 6)
    for view in (table.t(), table[:, ::2], table[1:3], table[:, :1].expand(4, 3)):
        assert token_fingerprint(view) == slow_fingerprint(view.tolist())


@pytest.mark.parametrize(
    ("tokens", "consecutive"),
    [
        (torch.arange(8), True),
        (torch.arange(8).expand(3, 8), True),
        (torch.tensor([[5, 6], [9, 10]]), True),
        (torch.tensor([[5, 6], [9, 9]]), False),
        (torch.arange(8).flip(0), False),
        (torch.tensor([[1], [2], [3]]), False),
        (torch.tensor(7), False),
        (torch.tensor([2**31 - 1, -(2**31)], dtype=torch.int32), False),
    ],
)
def test_position_ids_are_recognised(kernels: str, tokens: torch.Tensor, consecutive: bool) -> None:
    assert token_fingerprint(tokens).consecutive is consecutive


def test_no_tokens_at_all(kernels: str) -> None:
    assert token_fingerprint(torch.empty(3, 0, dtype=torch.long)) == TokenFingerprint(
        0, 0, -1, 0, False
    )
    assert count_supervised(torch.empty(0, dtype=torch.long), -100) == 0


@pytest.mark.parametrize("dtype", INTEGERS[:4], ids=str)
def test_ignored_targets_are_not_counted(kernels: str, dtype: torch.dtype) -> None:
    targets = torch.randint(-3, 3, (50, 40)).to(dtype)
    assert count_supervised(targets, -1) == int((targets != -1).sum())
    assert count_supervised(targets.t()[::3], -1) == int((targets.t()[::3] != -1).sum())
    assert count_supervised(targets, -100) == 2000


def test_floats_are_refused(kernels: str) -> None:
    with pytest.raises(TypeError, match="expected an integer tensor"):
        token_fingerprint(torch.ones(3))


def test_freed_tokens_are_refused(kernels: str) -> None:
    tokens = torch.arange(8)
    tokens.untyped_storage().resize_(0)
    with pytest.raises(TypeError, match="storage was freed"):
        count_supervised(tokens, 0)


def test_the_tokens_are_not_marked(kernels: str) -> None:
    tokens = torch.arange(8)
    token_fingerprint(tokens)
    count_supervised(tokens, 0)
    tokens.untyped_storage().resize_(0)
    assert tokens.untyped_storage().nbytes() == 0
