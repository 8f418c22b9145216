"""Fingerprints and counts of integer tensors, cheap enough for every batch."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.kernels import native
from lossleuth.kernels.blocks import GOLDEN, scattered
from lossleuth.kernels.views import flat_view

# The types that the library reads.
NATIVE = (torch.int64, torch.int32)
_Four = ctypes.c_int64 * 4


class TokenFingerprint(NamedTuple):
    """What tells one batch of tokens from another.

    The hash depends on the tokens in order, not on the tensor's shape or integer type.
    `consecutive` says that each row counts up by one, as position ids do; rows of one token never
    do. Without any token, `largest` is below `smallest`.
    """

    hash: int
    count: int  # type: ignore[assignment]  # a tuple's own method is not needed here
    largest: int
    smallest: int
    consecutive: bool


def token_fingerprint(tensor: Tensor) -> TokenFingerprint:
    """The fingerprint of an integer tensor.

    >>> seen = token_fingerprint(torch.tensor([[5, 6, 7], [1, 2, 3]]))
    >>> seen.count, seen.largest, seen.smallest, seen.consecutive
    (6, 7, 1, True)
    >>> seen.hash == token_fingerprint(torch.tensor([5, 6, 7, 1, 2, 3], dtype=torch.int32)).hash
    True
    """
    tokens = _readable(tensor)
    count = tokens.numel()
    if not count:
        return TokenFingerprint(0, 0, -1, 0, False)
    width = tokens.shape[-1] if tokens.dim() else 1
    library = native.load()
    if library is None:
        return _in_numpy(flat_view(tokens).astype(np.int64).reshape(-1, width))
    out = _Four()
    library.fingerprint(tokens.data_ptr(), tokens.element_size(), count // width, width, out)
    hashed, largest, smallest, consecutive = out
    return TokenFingerprint(hashed % 2**64, count, largest, smallest, consecutive == 1)


def count_supervised(targets: Tensor, ignored: int) -> int:
    """How many targets are not `ignored`.

    >>> count_supervised(torch.tensor([[3, -100], [-100, 4]]), ignored=-100)
    2
    """
    tokens = _readable(targets)
    library = native.load()
    if library is None:
        return int(np.count_nonzero(flat_view(tokens) != ignored))
    return int(library.others(tokens.data_ptr(), tokens.element_size(), tokens.numel(), ignored))


def _readable(tensor: Tensor) -> Tensor:
    """The tensor as int32 or int64, contiguous and in this machine's memory."""
    tokens = tensor
    if (
        type(tokens) is not Tensor
        or tokens.dtype not in NATIVE
        or not tokens.is_cpu
        or not tokens.is_contiguous()
    ):
        tokens = _brought_here(tensor)
    count = tokens.numel()
    needed = (tokens.storage_offset() + count) * tokens.element_size()
    if count and tokens.untyped_storage().nbytes() < needed:
        raise TypeError("expected tokens in memory, found a tensor whose storage was freed")
    return tokens


def _brought_here(tensor: Tensor) -> Tensor:
    if tensor.is_floating_point() or tensor.is_complex():
        raise TypeError(f"expected an integer tensor, found {tensor.dtype}: pass token ids")
    tokens = tensor.detach()
    if hasattr(tokens, "to_local"):
        tokens = tokens.to_local()
    if tokens.dtype not in NATIVE:
        tokens = tokens.to(torch.int64)
    return tokens.cpu().contiguous()


def _in_numpy(tokens: NDArray[np.int64]) -> TokenFingerprint:
    words = tokens.reshape(-1).astype(np.uint64)
    words += np.arange(1, tokens.size + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    steps = tokens[:, 1:].astype(np.uint64) - tokens[:, :-1].astype(np.uint64)
    return TokenFingerprint(
        int(scattered(words).sum()),
        tokens.size,
        int(tokens.max()),
        int(tokens.min()),
        tokens.shape[1] > 1 and bool((steps == 1).all()),
    )
