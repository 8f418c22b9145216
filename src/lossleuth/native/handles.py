"""Read a list of tensors through torch's C interface in one call.

The interface is the one that torch keeps stable for compiled models; it wants the address of a
pointer to a tensor's inner one. Asking in Python takes eight calls for each tensor (`table.py`);
that is done where torch or the library has no such interface.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.native import library as native
from lossleuth.torch_internals import LIBRARY_FILE, handle_of, innermost_transform

# Subclasses may keep their values anywhere.
PLAIN = (Tensor, torch.nn.Parameter)
# As `Torch` in `tensors.h` has them.
_FUNCTIONS = (
    *("get_device_type", "get_layout", "get_dtype", "get_dim", "get_sizes", "get_strides"),
    *("get_storage_size", "get_storage_offset", "get_data_ptr"),
)
_NUMBERS = (
    *("device_type_cpu", "layout_strided", "dtype_float32", "dtype_float64"),
    *("dtype_bfloat16", "dtype_float16", "dtype_int32", "dtype_int64"),
)
# As `Names` in `updates.h` has them: what Adam and its kin keep things under.
NAMES = ("params", "grad", "exp_avg", "exp_avg_sq", "step", "eps", "betas")
_WORD = ctypes.sizeof(ctypes.c_void_p)


class Places(NamedTuple):
    """Addresses of lists of int64: what tensors must be, and what is written of each.

    `expected` are types, or 0 where any will do.
    """

    counts: int
    expected: int
    addresses: int
    types: int


class Plan(NamedTuple):
    """Addresses of what the passes over parameters need: `Plan` in `plan.h`, and all types."""

    plan: int
    types: int


class Handles:
    """Asks about lists of tensors, each time in one call of the native library.

    What is not plain memory here, or perhaps is not, inside a transform of `torch.func`, is
    refused with None; or with False, where that is the answer.
    """

    def __init__(self, calls: ModuleType) -> None:
        # Kept, since the native code has its address.
        self._interface = _interface()

        def asking(function: Callable[..., Any]) -> Callable[..., Any]:
            # No function of Python in between: these are called in every step.
            return functools.partial(function, self._interface.ctypes.data)

        # Write where tensors lie, given the four `Places`; whether each could be read there.
        self.locate: Callable[[int, int, int, int, list[Any]], bool | None]
        self.locate = asking(calls.locate)
        # The numbers in tensors of one element each.
        self.numbers: Callable[[list[Any]], list[float] | None] = asking(calls.numbers)
        # Given a `Plan`, the step's number, threads, parameters, groups and `NAMES`: all
        # gradients, after the pass over them and the parameters of an optimizer's groups.
        self.before_step: Callable[..., list[Tensor | None] | None] = asking(calls.before_step)
        # The same with the optimizer's state before the names: what was measured in both passes,
        # row by row, and the parameters' ages.
        self.after_step: Callable[..., tuple[bytes, bytes] | None] = asking(calls.after_step)
        # Of a tensor of whole numbers: hash, count, largest, smallest, whether rows count up by 1.
        self.fingerprint: Callable[[Any], tuple[int, int, int, int, bool] | None]
        self.fingerprint = asking(calls.fingerprint_of)
        # How many of them are not the one that is given first.
        self.others: Callable[[int, Any], int | None] = asking(calls.others_of)


def handles() -> Handles | None:
    """The interface, where the native library and torch both have it.

    >>> if (found := handles()) is not None:
    ...     assert found.numbers([torch.tensor(2.5), torch.tensor([7])]) == [2.5, 7.0]
    """
    library = native.load()
    return None if library is None or library.calls is None else _of(library.calls)


@functools.cache
def _of(calls: ModuleType) -> Handles | None:
    try:
        return Handles(calls)
    except Exception:  # whatever another torch may do: it is asked in Python then
        return None


def _interface() -> NDArray[np.int64]:
    """What `Torch` in `tensors.h` describes; LookupError where tensors are not as expected."""
    # A library is asked for the symbols of those that it was linked with, too.
    library = ctypes.CDLL(LIBRARY_FILE)
    functions = [library[f"aoti_torch_{name}"] for name in _FUNCTIONS]
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    numbers = [library[f"aoti_torch_{name}"]() for name in _NUMBERS]
    inner = _place_of_inner(library)
    return np.array(
        [id(innermost_transform), *map(id, PLAIN), inner, *addresses, *numbers], np.int64
    )


def _place_of_inner(library: ctypes.CDLL) -> int:
    """How far into a tensor's object of Python the pointer to its inner tensor stands.

    Torch does not say, but hands out handles, which show the pointer. It has to stand at one and
    the same place in tensors of several kinds, and torch has to find their memory from there.
    """
    weight = torch.nn.Parameter(torch.ones(3, 2))
    tensors = [weight, torch.arange(5), torch.ones(4)[1:], weight * 2, weight.detach()]
    pointers = [_inner_of(tensor, library) for tensor in tensors]
    found = {
        place
        for place in range(object.__basicsize__, min(kind.__basicsize__ for kind in PLAIN), _WORD)
        if all(_word_at(id(t) + place) == p for t, p in zip(tensors, pointers, strict=True))
    }
    if len(found) != 1:
        raise LookupError(f"expected one place of the inner tensor, found {sorted(found)}")
    (place,) = found
    for tensor in tensors:
        data = ctypes.c_void_p()
        handle = ctypes.c_void_p(id(tensor) + place)
        library.aoti_torch_get_data_ptr(handle, ctypes.byref(data))
        if data.value != tensor.data_ptr():
            raise LookupError(f"expected a tensor at {tensor.data_ptr()}, found {data.value}")
    return place


def _inner_of(tensor: Tensor, library: ctypes.CDLL) -> int | None:
    """The address of the inner tensor, which a handle points to."""
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    handle = pointer(handle_of(tensor), None)
    try:
        return _word_at(handle)
    finally:
        library.aoti_torch_delete_tensor_object(ctypes.c_void_p(handle))


def _word_at(address: int) -> int | None:
    return ctypes.c_void_p.from_address(address).value


def is_inside_transform() -> bool:
    """Inside a transform of `torch.func` a tensor may be a wrapper without memory."""
    return innermost_transform() is not None
