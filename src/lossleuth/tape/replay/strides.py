"""Restore the recorded strides of tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.tape.tape import Layout


def laid_out(value: Tensor, layout: Layout) -> Tensor:
    """The tensor with the recorded strides, which later views rely on.

    >>> laid_out(torch.zeros(2, 3), Layout(torch.float32, (2, 3), (1, 2))).stride()
    (1, 2)
    """
    if layout.stride is None or value.layout is not torch.strided or value.shape != layout.shape:
        return value
    if value.stride() == layout.stride or 0 in layout.stride:
        return value
    fresh = torch.empty_strided(layout.shape, layout.stride, dtype=value.dtype, device=value.device)
    return fresh.copy_(value)
