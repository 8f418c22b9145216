"""Fingerprints and counts of integer tensors, cheap enough for every batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.native import library as native
from lossleuth.native.blocks import GOLDEN, scattered
from lossleuth.native.handles import handles
from lossleuth.native.views import flat_view

# The types that the library reads.
NATIVE = (torch.int64, torch.int32)


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


_NO_TOKENS = TokenFingerprint(0, 0, -1, 0, False)


class _Rows(NamedTuple):
    """Tokens in memory: rows of a width, each so far after the one before."""

    address: int
    bytes: int
    number: int
    width: int
    stride: int
    tensor: Tensor  # keeps the memory


class TokenReader:
    """Reads tokens with the library, if it is there when the reader is made."""

    def __init__(self) -> None:
        self._library = native.load()
        # Faster, if it is available.
        self._torch = handles()

    def fingerprint(self, tensor: Tensor) -> TokenFingerprint:
        """What `token_fingerprint` returns."""
        seen = None if self._torch is None else self._torch.fingerprint(tensor)
        if seen is not None:
            # As `TokenFingerprint(*seen)`, without a function of Python.
            return tuple.__new__(TokenFingerprint, seen)
        rows = _rows(tensor)
        number, width = rows.number, rows.width
        if not number * width:
            return _NO_TOKENS
        if self._library is None:
            return _in_numpy(
                flat_view(rows.tensor.contiguous()).astype(np.int64).reshape(number, width)
            )
        return TokenFingerprint(*self._library.fingerprint(*rows[:5]))

    def supervised(self, targets: Tensor, ignored: int) -> int:
        """What `count_supervised` returns."""
        others = None if self._torch is None else self._torch.others(ignored, targets)
        if others is not None:
            return others
        rows = _rows(targets)
        if self._library is None:
            return int(np.count_nonzero(flat_view(rows.tensor.contiguous()) != ignored))
        return int(self._library.others(*rows[:5], ignored))


def token_fingerprint(tensor: Tensor) -> TokenFingerprint:
    """The fingerprint of an integer tensor.

    >>> seen = token_fingerprint(torch.tensor([[5, 6, 7], [1, 2, 3]]))
    >>> seen.count, seen.largest, seen.smallest, seen.consecutive
    (6, 7, 1, True)
    >>> seen.hash == token_fingerprint(torch.tensor([5, 6, 7, 1, 2, 3], dtype=torch.int32)).hash
    True
    """
    return TokenReader().fingerprint(tensor)


def count_supervised(targets: Tensor, ignored: int) -> int:
    """How many targets are not `ignored`.

    >>> count_supervised(torch.tensor([[3, -100], [-100, 4]]), ignored=-100)
    2
    """
    return TokenReader().supervised(targets, ignored)


def _rows(tensor: Tensor) -> _Rows:
    """Where the tokens lie, of a copy if the tensor's own memory cannot be read as it is."""
    tokens = tensor
    if type(tokens) is not Tensor or tokens.dtype not in NATIVE or not tokens.is_cpu:
        tokens = _brought_here(tensor)
    shape, strides = tokens.shape, tokens.stride()
    # A batch that was cut from longer rows; copying it would cost more than reading it.
    gaps = len(shape) == 2 and strides[1] == 1 and strides[0] > shape[1]
    if not gaps and not tokens.is_contiguous():
        tokens = _brought_here(tensor)
    width = shape[-1] if shape else 1
    number = tokens.numel() // width if width else 0
    stride = strides[0] if gaps else width
    size = tokens.element_size()
    extent = (number - 1) * stride + width if number else 0
    if tokens.untyped_storage().nbytes() < (tokens.storage_offset() + extent) * size:
        raise TypeError("expected tokens in memory, found a tensor whose storage was freed")
    address = tokens.data_ptr()
    if extent and not address:
        raise TypeError("expected tokens in memory, found a tensor without any")
    return _Rows(
        address=address, bytes=size, number=number, width=width, stride=stride, tensor=tokens
    )


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
