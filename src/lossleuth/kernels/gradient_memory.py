"""Memory for gradients as large as the logits, reused in the next step.

A fresh block of hundreds of megabytes costs more than the arithmetic on it: the system clears every
page on first use. So the block that a gradient leaves behind is kept for the next. It is handed out
again only once nothing refers to it any more: no tensor, view, or array, in Python or in torch. At
most one block waits, in large pages, and the system may take it back when memory is short.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Below this many bytes torch's own memory is as fast.
MIN_BYTES = 1 << 22
# A block is reused if it is at most so many times as large as needed. Picked by hand.
MAX_SIZE_RATIO = 1.25

_waiting: list[mmap.mmap] = []


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """An uninitialised tensor in this machine's memory.

    >>> empty((2, 3), torch.float32).shape
    torch.Size([2, 3])
    """
    size = prod(shape) * dtype.itemsize
    block = _block(size) if size >= MIN_BYTES else None
    if block is None:
        return torch.empty(shape, dtype=dtype)
    array = np.frombuffer(block, np.uint8, size)
    # The tensor holds the array, however it is passed on; when it goes, the array does.
    weakref.finalize(array, _keep, block).atexit = False
    return torch.from_numpy(array).view(dtype).view(shape)


def forget() -> None:
    """Free the block that waits to be reused."""
    _waiting.clear()


def _block(size: int) -> mmap.mmap | None:
    if not hasattr(mmap, "MAP_PRIVATE"):
        return None
    try:
        block = _waiting.pop()
        if size <= len(block) <= size * MAX_SIZE_RATIO:
            return block
        del block
    except IndexError:
        pass
    flags: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
    fresh = mmap.mmap(-1, size, **flags)
    _advise(fresh, "MADV_HUGEPAGE")
    return fresh


def _keep(block: mmap.mmap) -> None:
    _advise(block, "MADV_FREE")
    _waiting[:] = [block]


def _advise(block: mmap.mmap, name: str) -> None:
    advice = getattr(mmap, name, None)
    if advice is None:
        return
    # Where the system cannot, the block is as good without.
    with contextlib.suppress(OSError):
        block.madvise(advice)
