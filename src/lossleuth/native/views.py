"""Numpy views of tensors without side effects.

`Tensor.numpy()` forbids the tensor's storage to be resized ever after, which would be a change to
the user's program.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NUMPY_TYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
}


def flat_view(tensor: Tensor) -> NDArray[Any]:
    """The elements of a contiguous tensor in this machine's memory; the view keeps it alive.

    >>> flat_view(torch.tensor([[1.0, 2.0]]))
    array([1., 2.], dtype=float32)
    """
    if not tensor.numel():
        return np.empty(0, NUMPY_TYPES[tensor.dtype])
    buffer = (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())
    buffer.owner = tensor  # type: ignore[attr-defined]  # ctypes objects take any attribute
    return np.frombuffer(memoryview(buffer), NUMPY_TYPES[tensor.dtype])
