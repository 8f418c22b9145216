"""Where the tensors of a training step lie in memory, for the native code.

Addresses are taken afresh in every step: gradients are new tensors each time, and weights and
moments can move too. Where nothing moved, finding that out is all that is done.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Collection, Iterator, Sequence
from operator import is_

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.kernels.blocks import BLOCK_LENGTH, SLOT, TENSOR, Groups

# How the native code numbers element types; 0 is a tensor that is not there.
TYPES = {torch.float32: 1, torch.float64: 2, torch.bfloat16: 3, torch.float16: 4}

# The fields of a row, each of eight bytes, as the native code reads them.
PARAMETER, BEFORE, GRADIENT, FIRST, SECOND, THRESHOLD = range(6)
TYPE_OF = {PARAMETER: 6, GRADIENT: 7, FIRST: 8, SECOND: 9}
COUNT = 10
FIELDS = 11
# Copies begin at a cache line.
LINE = 64

Tensors = Sequence[Tensor | None]


class MemoryTable:
    """A row per parameter with the addresses of its tensors, and the buffers of their copies."""

    def __init__(self, parameters: Sequence[Tensor], selected: Groups) -> None:
        counts = [parameter.numel() for parameter in parameters]
        self.rows = np.zeros((len(counts), FIELDS), np.int64)
        self.rows[:, COUNT] = counts
        self.parameters = Column(self.rows, PARAMETER)
        self.gradients = Column(self.rows, GRADIENT)
        self.first = Column(self.rows, FIRST)
        self.second = Column(self.rows, SECOND)
        self.thresholds = self.rows.view(np.float64)[:, THRESHOLD]
        self._types = self.rows[:, TYPE_OF[PARAMETER]]

        room = np.zeros(len(counts), np.int64)
        np.maximum.at(room, selected[:, TENSOR], selected[:, SLOT] + selected[:, BLOCK_LENGTH])
        room = np.minimum(room, counts) * [parameter.element_size() for parameter in parameters]
        self._ends = np.cumsum(-(-room // LINE) * LINE)
        self._begins = self._ends - -(-room // LINE) * LINE
        self._copies = np.empty(self._ends[-1] if counts else 0, np.uint8)
        self.rows[:, BEFORE] = self._begins + self._copies.ctypes.data

    def copy_of(self, row: int, dtype: torch.dtype, elements: int) -> Tensor:
        """What was kept of a parameter before the update, as a flat tensor."""
        copy = torch.from_numpy(self._copies[self._begins[row] : self._ends[row]])
        return copy.view(dtype)[:elements]

    @contextlib.contextmanager
    def without(self, rows: Collection[int]) -> Iterator[None]:
        """The table with some parameters absent, for the native code to leave out."""
        types = self._types.copy()
        self._types[list(rows)] = 0
        try:
            yield
        finally:
            self._types[:] = types


class Column:
    """One kind of tensor, such as all gradients: which there are, and where."""

    def __init__(self, rows: NDArray[np.int64], field: int) -> None:
        self._addresses = rows[:, field]
        self._types = rows[:, TYPE_OF[field]]
        self._counts = rows[:, COUNT].tolist()
        # Tensors that are there but that only torch can read.
        self.unread: list[int] = []
        # What was last looked up. Weak, since a gradient must not outlive its step.
        self._known: list[weakref.ref[Tensor]] = []
        self._places: list[int] = []

    def refresh(self, tensors: Tensors) -> bool:
        """Write where these tensors are now; False if none has moved since the last time."""
        known = self._known
        if len(known) == len(tensors) and all(map(is_, [ref() for ref in known], tensors)):
            # A tensor cannot have been given less memory, or none, and be where it was.
            if [tensor.data_ptr() for tensor in tensors if tensor is not None] == self._places:
                return False
        self._look_up(tensors)
        return True

    def _look_up(self, tensors: Tensors) -> None:
        addresses, types = [0] * len(tensors), [0] * len(tensors)
        self.unread = []
        for i, tensor in enumerate(tensors):
            if tensor is None:
                continue
            kind = readable_type(tensor, self._counts[i])
            if kind:
                types[i], addresses[i] = kind, tensor.data_ptr()
            else:
                self.unread.append(i)
        self._addresses[:] = addresses
        self._types[:] = types
        # With a tensor that is absent or only torch can read, everything is looked up again.
        complete = all(types)
        self._known = [weakref.ref(t) for t in tensors if t is not None] if complete else []
        self._places = addresses


def readable_type(tensor: Tensor, count: int) -> int:
    """The number of the tensor's type if its address is all that is needed to read it, else 0."""
    kind = type(tensor)
    if kind is not Tensor and kind is not torch.nn.Parameter:
        return 0
    try:
        dtype = tensor.dtype
        if (
            tensor.is_cpu
            and tensor.is_contiguous()
            and tensor.numel() == count
            and tensor.untyped_storage().nbytes()
            >= (tensor.storage_offset() + count) * dtype.itemsize
            and not (count == 1 and tensor.is_neg())
        ):
            return TYPES.get(dtype, 0)
    except (NotImplementedError, RuntimeError):  # sparse tensors have no storage
        pass
    return 0
