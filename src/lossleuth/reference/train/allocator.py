"""Keep memory that is freed, instead of giving it back to the system in every step."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> bool:
    """Ask glibc to reuse large blocks; False where there is no glibc to ask.

    By default a large tensor is mapped afresh and unmapped again, and every page of it faults on
    first use: the same activations, step after step.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # Both are needed: with the second alone the top of the heap is trimmed and faulted in again.
    mapped = mallopt(M_MMAP_THRESHOLD, 1 << 30)
    trimmed = mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
    return bool(mapped and trimmed)
