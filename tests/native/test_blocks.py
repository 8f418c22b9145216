"""Which blocks a step looks at."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.native.blocks import (
    BLOCK,
    BLOCKS,
    SLOT,
    TENSOR,
    WHOLE,
    groups,
    is_whole,
    scattered,
    spans,
)

sizes = st.one_of(st.integers(0, 3 * WHOLE), st.integers(0, 60 * BLOCK))


@given(st.lists(sizes, max_size=5), st.integers(1, 9), st.integers(0, 2**40))
def test_spans_lie_in_their_tensors_and_slots_do_not_overlap(
    counts: list[int], every: int, step: int
) -> None:
    table = groups(counts, every)
    offsets, lengths = spans(table, counts, step)
    assert (lengths > 0).all() and (table[:, BLOCKS] <= every).all()
    for tensor, count in enumerate(counts):
        mine = table[:, TENSOR] == tensor
        begins, ends = offsets[mine], offsets[mine] + lengths[mine]
        assert (begins >= 0).all() and (ends <= count).all()
        assert (ends[:-1] <= begins[1:]).all()
        slots = table[mine, SLOT]
        assert (slots[:-1] + lengths[mine][:-1] <= slots[1:]).all()
        if is_whole(count, every):
            assert lengths[mine].sum() == count


@pytest.mark.parametrize("count", [WHOLE + 1, 10 * BLOCK, 37 * BLOCK + 5])
def test_every_element_is_seen_sooner_or_later(count: int) -> None:
    seen = np.zeros(count, bool)
    table = groups([count], every=8)
    for step in range(100):
        for offset, length in zip(*spans(table, [count], step), strict=True):
            seen[offset : offset + length] = True
    assert seen.all()


def test_small_tensors_and_every_one_are_seen_whole() -> None:
    assert is_whole(WHOLE, 8) and not is_whole(WHOLE + 1, 8) and is_whole(10**9, 1)


def test_scattered_words_are_those_of_splitmix64() -> None:
    """The first outputs for seed 0, from the generator's published reference."""
    golden = 0x9E3779B97F4A7C15
    words = np.array([golden, 2 * golden % 2**64], np.uint64)
    assert scattered(words).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
