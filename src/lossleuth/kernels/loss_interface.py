"""Arguments, checks and results that all losses share."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.kernels.gradient_memory import MIN_BYTES, empty
from lossleuth.kernels.row_losses import NATIVE, Options, in_rows
from lossleuth.kernels.supervision import require_some

Reduction = Literal["mean", "sum", "none"]
Array = NDArray[Any]


def reduced(
    losses: Tensor, total: float, count: int, reduction: str, logits: Tensor, exact: bool
) -> Tensor:
    """The losses of rows as one number or as they are, in the type that is promised.

    >>> reduced(torch.tensor([1.0, 0.0]), 1.0, 1, "none", torch.zeros(2, 5), exact=True)
    tensor([1., 0.], dtype=torch.float64)
    """
    dtype = torch.float64 if exact or logits.dtype is torch.float64 else torch.float32
    if reduction == "none":
        return losses.to(dtype).view(logits.shape[:-1])
    number = total / count if reduction == "mean" else total
    return torch.scalar_tensor(number, dtype=dtype, device=logits.device)


def room_for(x: Tensor) -> Tensor:
    """Memory for a gradient of x."""
    if x.nbytes < MIN_BYTES and x.is_contiguous():
        return torch.empty_like(x)  # in half the time
    return room(tuple(x.shape), x.dtype, x.device)


def room(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """An uninitialised tensor; on the CPU its memory is reused.

    >>> room((2, 3), torch.bfloat16, torch.device("cpu")).dtype
    torch.bfloat16
    """
    if device.type == "cpu":
        return empty(shape, dtype)
    return torch.empty(shape, dtype=dtype, device=device)


def readable(x: Tensor) -> Tensor:
    """With every row in one piece, as the library needs it."""
    return x if in_rows(x) or x.dtype not in NATIVE else x.contiguous()


def tensor_of(values: Tensor | Array, written: bool = False) -> Tensor:
    """A tensor of the same memory, or of a copy where torch cannot share it."""
    if isinstance(values, Tensor):
        return values
    if written and not values.flags.writeable:
        raise ValueError("expected logits that can be written to, found a read-only array")
    if not values.flags.writeable or any(stride < 0 for stride in values.strides):
        values = values.copy()
    return torch.from_numpy(values)


def options_of(temperature: float, smoothing: float, exact: bool) -> Options:
    """The options, if they make sense.

    >>> options_of(0.0, 0.0, exact=False)
    Traceback (most recent call last):
    ValueError: expected a temperature above 0, found 0.0: 1 leaves logits as they are
    """
    if not 0 < temperature < math.inf:
        raise ValueError(
            f"expected a temperature above 0, found {temperature}: 1 leaves logits as they are"
        )
    if not 0 <= smoothing <= 1:
        raise ValueError(f"expected label_smoothing from 0 to 1, found {smoothing}: 0 is without")
    return Options(temperature=temperature, smoothing=smoothing, exact=exact)


def require_logits(logits: Tensor) -> None:
    """Refuse what are no logits."""
    if logits.dim() not in (2, 3) or not logits.shape[-1]:
        raise ValueError(
            f"expected logits of shape [N, V] or [B, T, V], found {tuple(logits.shape)}: the "
            "vocabulary is the last axis"
        )
    if not logits.is_floating_point():
        raise TypeError(f"expected floating-point logits, found {logits.dtype}")


def require_reduction(reduction: str, count: int, places: tuple[int, ...]) -> None:
    """Refuse a reduction that does not exist, and a mean over nothing."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"expected reduction 'mean', 'sum' or 'none', found {reduction!r}")
    if reduction == "mean":
        require_some(count, places)


def require_rows(logits: Tensor) -> None:
    """Refuse to write a gradient over columns that lie apart."""
    if not in_rows(logits):
        raise ValueError(
            f"expected logits whose rows lie in one piece for a gradient in their place, found "
            f"strides {logits.stride()}: pass inplace=False, or logits.contiguous()"
        )
