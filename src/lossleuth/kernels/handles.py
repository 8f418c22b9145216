"""Where tensors lie in memory, asked of torch's C interface in one call for a whole list.

The interface is the one that torch keeps stable for compiled models. Asking in Python takes eight
calls for each tensor (`table.py`); that is done where torch or the library has no such interface.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.kernels import native

_peek = torch._C._functorch.peek_interpreter_stack
# Subclasses may keep their values anywhere.
PLAIN = (Tensor, torch.nn.Parameter)
# As `Torch` in `calls.cpp` has them.
_FUNCTIONS = (
    *("delete_tensor_object", "get_device_type", "get_layout", "get_dtype", "get_dim"),
    *("get_sizes", "get_strides", "get_storage_size", "get_storage_offset", "get_data_ptr"),
)
_NUMBERS = (
    *("device_type_cpu", "layout_strided", "dtype_float32", "dtype_float64"),
    *("dtype_bfloat16", "dtype_float16", "dtype_int32", "dtype_int64"),
)


class Places(NamedTuple):
    """Addresses of lists of int64: what tensors must be, and what is written of each.

    `expected` are types, or 0 where any will do.
    """

    counts: int
    expected: int
    addresses: int
    types: int


class Handles:
    """Asks torch's C interface about lists of tensors; it tells of plain memory only."""

    def __init__(self, locate: native.Call, numbers: native.Call) -> None:
        self._locate, self._numbers = locate, numbers
        # Kept, since the native code has its address.
        self._make = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors
        self._interface = _interface(self._make)
        self._address = self._interface.ctypes.data

    def locate(self, tensors: list[Any], places: Places) -> bool:
        """Write where tensors lie; whether each could be read by its address."""
        return not is_inside_transform() and bool(self._locate(self._address, *places, tensors))

    def numbers(self, tensors: list[Any]) -> list[float] | None:
        """The numbers in tensors of one element each."""
        found: list[float] | None
        found = None if is_inside_transform() else self._numbers(self._address, tensors)
        return found


def handles() -> Handles | None:
    """The interface, where the native library and torch both have it.

    >>> if (found := handles()) is not None:
    ...     assert found.numbers([torch.tensor(2.5), torch.tensor([7])]) == [2.5, 7.0]
    """
    library = native.load()
    return None if library is None else _of(library)


@functools.cache
def _of(library: native.Library) -> Handles | None:
    if library.locate is None or library.numbers is None:
        return None
    try:
        return Handles(library.locate, library.numbers)
    except (AttributeError, OSError):
        return None


def _interface(make_handles: object) -> NDArray[np.int64]:
    """What `Torch` in `calls.cpp` describes."""
    # A library is asked for the symbols of those that it was linked with, too.
    library = ctypes.CDLL(torch._C.__file__)
    functions = [library[f"aoti_torch_{name}"] for name in _FUNCTIONS]
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    numbers = [library[f"aoti_torch_{name}"]() for name in _NUMBERS]
    return np.array([id(make_handles), *map(id, PLAIN), *addresses, *numbers], np.int64)


def is_inside_transform() -> bool:
    """Inside a transform of `torch.func` a tensor may be a wrapper without memory."""
    return _peek() is not None
