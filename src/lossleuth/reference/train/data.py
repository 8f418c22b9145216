"""Token ids on disk, windows over them, and batches of windows.

The token file is one stream: every document stands between two end-of-text tokens, so a window
that stays inside a document's span never crosses a mark, and the first token of a document is
predicted like any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.files import replace_file
from lossleuth.reference.train.tokenizer import Tokenizer
from lossleuth.types.errors import BadInput

IGNORED = -100

Tokens = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True)
class Span:
    """A document, or a part of one: targets are the tokens after `start`, up to `stop`."""

    start: int
    stop: int

    @property
    def targets(self) -> int:
        """How many tokens of the span are predicted."""
        return self.stop - self.start


@dataclass(frozen=True)
class Windows:
    """Where each window starts and how many targets it has (fewer than context at an end)."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    context: int

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def targets(self) -> int:
        """Supervised positions in all windows, repeats counted."""
        return int(self.lengths.sum())


@dataclass(frozen=True)
class Batch:
    """Inputs, targets and the ids of the windows they are from."""

    inputs_BT: Tensor
    targets_BT: Tensor
    windows: NDArray[np.int64]


def token_type(tokenizer: Tokenizer) -> np.dtype[np.uint16] | np.dtype[np.uint32]:
    """The smallest type that holds every token id."""
    return np.dtype("<u2") if tokenizer.size <= 1 << 16 else np.dtype("<u4")


def write_tokens(path: Path, documents: Sequence[str], tokenizer: Tokenizer) -> Tokens:
    """Encode documents into a file and return it memory-mapped."""
    dtype = token_type(tokenizer)
    mark = np.array([tokenizer.end_of_text], dtype=dtype)
    with replace_file(path) as stream:
        stream.write(mark.tobytes())
        for document in documents:
            stream.write(tokenizer.encode(document).astype(dtype).tobytes())
            stream.write(mark.tobytes())
    return np.memmap(path, dtype=dtype, mode="r")


def save_tokens(path: Path, tokens: Tokens) -> Tokens:
    """Write tokens into a file and return it memory-mapped."""
    with replace_file(path) as stream:
        stream.write(np.ascontiguousarray(tokens).data)
    return np.memmap(path, dtype=tokens.dtype, mode="r")


def fingerprint(tokens: Tokens) -> str:
    """A name for exactly these tokens.

    >>> fingerprint(np.array([0, 1], dtype="<u2")) == fingerprint(np.array([0, 2], dtype="<u2"))
    False
    """
    return hashlib.sha256(np.ascontiguousarray(tokens).data).hexdigest()[:16]


def document_spans(tokens: Tokens, end_of_text: int) -> list[Span]:
    """The spans between end-of-text tokens.

    >>> document_spans(np.array([0, 5, 6, 0, 7, 0], dtype="<u2"), 0)
    [Span(start=0, stop=3), Span(start=3, stop=5)]
    """
    marks = np.flatnonzero(tokens == end_of_text).tolist()
    return [Span(a, b) for a, b in pairwise(marks)]


def make_windows(spans: Sequence[Span], context: int, stride: int) -> Windows:
    """Windows at every stride of each span, none past its end, until its end is covered.

    With stride == context every target is in exactly one window.

    >>> windows = make_windows([Span(0, 10)], context=4, stride=4)
    >>> windows.starts.tolist(), windows.lengths.tolist()
    ([0, 4, 8], [4, 4, 2])
    """
    starts: list[int] = []
    lengths: list[int] = []
    for span in spans:
        start = span.start
        while start < span.stop:
            starts.append(start)
            lengths.append(min(context, span.stop - start))
            if start + context >= span.stop:
                break
            start += stride
    return Windows(np.array(starts, np.int64), np.array(lengths, np.int64), context)


def make_batch(tokens: Tokens, windows: Windows, which: NDArray[np.int64]) -> Batch:
    """Inputs and targets of some windows; positions past a window's end are not supervised."""
    starts, lengths = windows.starts[which], windows.lengths[which]
    positions = starts[:, None] + np.arange(windows.context + 1)
    chunk = tokens[np.minimum(positions, len(tokens) - 1)].astype(np.int64)
    inputs, targets = chunk[:, :-1], chunk[:, 1:].copy()
    targets[np.arange(windows.context) >= lengths[:, None]] = IGNORED
    return Batch(torch.from_numpy(inputs.copy()), torch.from_numpy(targets), which)


@dataclass(frozen=True)
class BatchOrder:
    """Which windows are in batch k: a pure function of k and the seed, so that resuming is exact.

    Every epoch is a new permutation; a batch may end one epoch and begin the next.

    >>> order = BatchOrder(windows=5, batch=2, seed=0)
    >>> sorted(i for k in range(5) for i in order.at(k).tolist())
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    """

    windows: int
    batch: int
    seed: int

    def at(self, k: int) -> NDArray[np.int64]:
        """Ids of the windows in batch k."""
        places = np.arange(k * self.batch, (k + 1) * self.batch)
        return np.array([self._epoch(p // self.windows)[p % self.windows] for p in places.tolist()])

    def _epoch(self, epoch: int) -> NDArray[np.int64]:
        return _permutation(self.windows, self.seed, epoch)


@lru_cache(maxsize=4)
def _permutation(windows: int, seed: int, epoch: int) -> NDArray[np.int64]:
    return np.random.default_rng((seed, epoch)).permutation(windows)


def validation_batches(tokens: Tokens, windows: Windows, batch: int) -> Iterator[Batch]:
    """Every window once, in order."""
    for first in range(0, len(windows), batch):
        yield make_batch(tokens, windows, np.arange(first, min(first + batch, len(windows))))


def misaligned(batch: Batch, tokens: Tokens, windows: Windows) -> int:
    """Positions of a batch whose input or target is not what the token file says it must be.

    Looks at *every* position, and reads the file one token at a time, so that it shares no
    indexing with `make_batch`. The founding investigations checked one row, or none.
    """
    wrong = 0
    rows = zip(batch.windows.tolist(), batch.inputs_BT, batch.targets_BT, strict=True)
    for window, inputs_T, targets_T in rows:
        start, length = int(windows.starts[window]), int(windows.lengths[window])
        for t, (seen, target) in enumerate(zip(inputs_T.tolist(), targets_T.tolist(), strict=True)):
            if t < length:
                wrong += seen != int(tokens[start + t]) or target != int(tokens[start + t + 1])
            else:
                wrong += target != IGNORED
    return wrong


def check_long_enough(longest: int, context: int) -> None:
    """Refuse text whose longest document does not fill a window."""
    if longest < context:
        raise BadInput(
            f"a document of at least {context} tokens, one window",
            f"the longest has {longest}",
            "give more text or a smaller --context",
        )
