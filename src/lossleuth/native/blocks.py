"""Which elements of each tensor are read around an update.

Copying every weight and reading it again with its copy and both moments costs more than the whole
allowance of the statistics. So all but the smallest tensors are looked at in part: of every few
neighbouring blocks one, and another one in the next step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Tensors of up to this many elements are read whole. Picked by hand.
WHOLE = 8_192
# Elements of a block of a larger one.
BLOCK = 2_048
# Elements of a block of a tensor that is read whole, so that threads can share it.
CHUNK = 16_384

# The fields of a group, as the native code reads them.
TENSOR, FIRST_BLOCK, BLOCKS, BLOCK_LENGTH, SLOT = range(5)

GOLDEN = 0x9E3779B97F4A7C15

Groups = NDArray[np.int64]


def groups(counts: Sequence[int], every: int) -> Groups:
    """Rows of neighbouring blocks, `every` at most; each step reads one of them.

    A block goes to its group's slot in the copy of its tensor.

    >>> groups([20_000], every=1).tolist()
    [[0, 0, 1, 16384, 0], [0, 1, 1, 16384, 16384]]
    >>> groups([20_000], every=2).tolist()
    [[0, 0, 2, 2048, 0], [0, 2, 2, 2048, 2048], [0, 4, 2, 2048, 4096], ...]
    """
    empty = np.empty((0, 5), np.int64)
    return np.concatenate([empty, *(_groups(i, n, every) for i, n in enumerate(counts))])


def is_whole(count: int, every: int) -> bool:
    """Whether a tensor of so many elements is always read whole."""
    return count <= WHOLE or every == 1


def spans(
    of: Groups, counts: Sequence[int], step: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Offset and length of the block that a step reads in each group."""
    words = scattered(np.arange(len(of), dtype=np.uint64) + np.uint64(step * GOLDEN % 2**64))
    picks = (words % of[:, BLOCKS].astype(np.uint64)).astype(np.int64)
    offsets = (of[:, FIRST_BLOCK] + picks) * of[:, BLOCK_LENGTH]
    ends = np.array(counts, np.int64)[of[:, TENSOR]]
    return offsets, np.minimum(of[:, BLOCK_LENGTH], ends - offsets)


def scattered(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words that look random, the same in every run (the splitmix64 generator)."""
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = words ^ words >> np.uint64(31)
    return mixed


def _groups(tensor: int, count: int, every: int) -> Groups:
    whole = is_whole(count, every)
    length = CHUNK if whole else BLOCK
    blocks = -(-count // length)
    rows = blocks if whole else -(-blocks // every)
    # As even as it goes, so that every block is seen about equally often.
    bounds = np.arange(rows + 1) * blocks // max(rows, 1)
    table = np.empty((rows, 5), np.int64)
    table[:, TENSOR], table[:, BLOCK_LENGTH] = tensor, length
    table[:, FIRST_BLOCK], table[:, BLOCKS] = bounds[:-1], np.diff(bounds)
    table[:, SLOT] = np.arange(rows) * length
    return table
