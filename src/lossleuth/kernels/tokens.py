"""Fingerprints and counts of integer tensors, cheap enough for every batch."""

from __future__ import annotations

import ctypes
import operator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lossleuth.kernels import native


@dataclass(frozen=True, slots=True)
class TokenFingerprint:
    """What tells one batch of tokens from another.

    The hash depends on the tokens in order, not on the tensor's shape or integer type.
    `consecutive` says that each row counts up by one, as position ids do; rows of one token never
    do. Without any token, `largest` is below `smallest`.
    """

    hash: int
    count: int
    largest: int
    smallest: int
    consecutive: bool


def token_fingerprint(tensor: Tensor) -> TokenFingerprint:
    """The fingerprint of an integer tensor.

    >>> seen = token_fingerprint(torch.tensor([[5, 6, 7], [1, 2, 3]]))
    >>> seen.count, seen.largest, seen.smallest, seen.consecutive
    (6, 7, 1, True)
    >>> seen.hash == token_fingerprint(torch.tensor([[5, 6, 7, 1], [2, 3, 0, 0]])[:, :3]).hash
    False
    """
    tokens = _readable(tensor)
    count = tokens.numel()
    if not count:
        return TokenFingerprint(0, 0, -1, 0, False)
    width = tokens.shape[-1] if tokens.dim() else 1
    library = native.load()
    if library is None:
        return _in_numpy(tokens.numpy().astype(np.int64, copy=False).reshape(-1, width))
    out = (ctypes.c_int64 * 4)()
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
        return int(np.count_nonzero(tokens.numpy() != ignored))
    ignored = operator.index(ignored)
    if not -(2**63) <= ignored < 2**63:
        return tokens.numel()
    return int(library.others(tokens.data_ptr(), tokens.element_size(), tokens.numel(), ignored))


def _readable(tensor: Tensor) -> Tensor:
    """The tensor as int32 or int64, contiguous and in this machine's memory."""
    if tensor.dtype is not torch.int64 and tensor.dtype is not torch.int32:
        if tensor.is_floating_point() or tensor.is_complex():
            raise TypeError(f"expected an integer tensor, found {tensor.dtype}: pass token ids")
        tensor = tensor.to(torch.int64)
    return tensor.detach().cpu().contiguous()


def _in_numpy(tokens: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> TokenFingerprint:
    word = tokens.reshape(-1).astype(np.uint64)
    word += np.arange(1, tokens.size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ word >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ word >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    steps = tokens[:, 1:].astype(np.uint64) - tokens[:, :-1].astype(np.uint64)
    consecutive = tokens.shape[1] > 1 and bool((steps == 1).all())
    hashed = int(np.add.reduce(word))
    return TokenFingerprint(hashed, tokens.size, int(tokens.max()), int(tokens.min()), consecutive)
