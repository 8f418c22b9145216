"""Windows, batches and their alignment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.reference.train.data import (
    IGNORED,
    Batch,
    BatchOrder,
    Span,
    check_long_enough,
    document_spans,
    fingerprint,
    make_batch,
    make_windows,
    misaligned,
    save_tokens,
    validation_batches,
    write_tokens,
)
from lossleuth.reference.train.tokenizer import build_tokenizer
from lossleuth.types.errors import BadInput

lengths = st.lists(st.integers(1, 30), min_size=1, max_size=6)


def spans_of(sizes: list[int]) -> list[Span]:
    stops = np.cumsum(sizes).tolist()
    return [Span(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]


def test_the_token_file_holds_documents_between_marks(tmp_path: Path) -> None:
    tokenizer = build_tokenizer("char", ["ab", "c"], None)
    tokens = write_tokens(tmp_path / "tokens.bin", ["ab", "c"], tokenizer)
    assert tokens.tolist() == [0, 2, 3, 0, 4, 0]
    assert isinstance(tokens, np.memmap)
    assert document_spans(tokens, 0) == [Span(0, 3), Span(3, 5)]


def test_a_large_vocabulary_takes_four_bytes_a_token(tmp_path: Path) -> None:
    text = "".join(map(chr, range(0x10000, 0x10000 + 70_000)))
    tokenizer = build_tokenizer("char", [text], None)
    tokens = write_tokens(tmp_path / "tokens.bin", [text], tokenizer)
    assert tokens.dtype.itemsize == 4
    assert tokens[1:-1].tolist() == tokenizer.encode(text).tolist()


@given(lengths, st.integers(1, 12))
def test_with_stride_equal_to_context_every_target_is_in_one_window(
    sizes: list[int], context: int
) -> None:
    spans = spans_of(sizes)
    windows = make_windows(spans, context, context)
    targets = [
        s + 1 + t
        for s, n in zip(windows.starts.tolist(), windows.lengths.tolist(), strict=True)
        for t in range(n)
    ]
    assert sorted(targets) == list(range(1, sum(sizes) + 1))


@given(lengths, st.integers(1, 12), st.integers(1, 12))
def test_no_window_crosses_a_mark_and_none_is_repeated(
    sizes: list[int], context: int, stride: int
) -> None:
    spans = spans_of(sizes)
    windows = make_windows(spans, context, min(stride, context))
    pairs = list(zip(windows.starts.tolist(), windows.lengths.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    for start, length in pairs:
        assert any(span.start <= start and start + length <= span.stop for span in spans)
    reached = {start + length for start, length in pairs}
    assert {span.stop for span in spans} <= reached


def test_targets_are_the_next_tokens_and_the_rest_is_ignored() -> None:
    tokens = np.arange(10, 20, dtype=np.uint16)
    windows = make_windows([Span(0, 5)], context=4, stride=4)
    batch = make_batch(tokens, windows, np.array([0, 1]))
    assert batch.inputs_BT[0].tolist() == [10, 11, 12, 13]
    assert batch.targets_BT.tolist() == [[11, 12, 13, 14], [15, IGNORED, IGNORED, IGNORED]]
    assert batch.inputs_BT.dtype == batch.targets_BT.dtype == torch.int64


def test_the_last_window_does_not_read_past_the_file() -> None:
    tokens = np.arange(6, dtype=np.uint16)
    windows = make_windows([Span(0, 5)], context=4, stride=4)
    batch = make_batch(tokens, windows, np.array([1]))
    assert batch.targets_BT.tolist() == [[5, IGNORED, IGNORED, IGNORED]]
    assert misaligned(batch, tokens, windows) == 0


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_shifted_batch_is_seen_at_every_position(shift: int) -> None:
    tokens = np.arange(50, dtype=np.uint16)
    windows = make_windows([Span(0, 48)], context=8, stride=8)
    batch = make_batch(tokens, windows, np.arange(4))
    assert misaligned(batch, tokens, windows) == 0
    shifted = replace(batch, targets_BT=batch.targets_BT + shift)
    assert misaligned(shifted, tokens, windows) == 32


def test_one_wrong_target_and_one_supervised_pad_are_seen() -> None:
    tokens = np.arange(50, dtype=np.uint16)
    windows = make_windows([Span(0, 10)], context=8, stride=8)
    batch = make_batch(tokens, windows, np.arange(2))
    targets = batch.targets_BT.clone()
    targets[0, 5] = 3
    targets[1, 7] = 18
    assert misaligned(Batch(batch.inputs_BT, targets, batch.windows), tokens, windows) == 2


@given(st.integers(1, 40), st.integers(1, 7), st.integers(0, 3))
def test_every_epoch_shows_each_window_once(windows: int, batch: int, seed: int) -> None:
    order = BatchOrder(windows, batch, seed)
    epochs = 3
    seen = np.concatenate([order.at(k) for k in range(-(-epochs * windows // batch))])
    for epoch in range(epochs):
        part = seen[epoch * windows : (epoch + 1) * windows]
        assert sorted(part.tolist()) == list(range(windows))


def test_epochs_differ_and_seeds_differ_and_a_batch_is_always_the_same() -> None:
    order = BatchOrder(100, 100, seed=0)
    assert order.at(0).tolist() != order.at(1).tolist()
    assert order.at(0).tolist() != BatchOrder(100, 100, seed=1).at(0).tolist()
    assert order.at(7).tolist() == BatchOrder(100, 100, seed=0).at(7).tolist()


def test_validation_shows_every_window_once_in_order() -> None:
    tokens = np.arange(50, dtype=np.uint16)
    windows = make_windows([Span(0, 49)], context=8, stride=8)
    parts = list(validation_batches(tokens, windows, batch=3))
    assert [part.windows.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_fingerprint_changes_with_one_token() -> None:
    tokens = np.arange(50, dtype=np.uint16)
    changed = tokens.copy()
    changed[49] = 0
    assert fingerprint(tokens) != fingerprint(changed)


def test_text_shorter_than_a_window_is_refused() -> None:
    with pytest.raises(BadInput, match="at least 64 tokens, one window, found the longest has 10"):
        check_long_enough(10, 64)
    check_long_enough(64, 64)


def test_saved_tokens_are_the_same_tokens_and_stand_in_the_file(tmp_path: Path) -> None:
    tokens = np.arange(50, dtype="<u4")
    saved = save_tokens(tmp_path / "tokens.bin", tokens)
    assert isinstance(saved, np.memmap)
    assert saved.tolist() == tokens.tolist()
    assert (tmp_path / "tokens.bin").read_bytes() == tokens.tobytes()
