"""Where the tensors of a training step lie in memory, for the native code.

Addresses are taken afresh in every step: gradients are new tensors each time, and weights and
moments can move too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from operator import add, attrgetter, ge, mul, not_, or_
from struct import Struct
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.native.blocks import BLOCK_LENGTH, SLOT, TENSOR, Groups
from lossleuth.native.handles import PLAIN, Places, handles

# How the native code numbers element types; 0 is a tensor that is not there.
TYPES = {torch.float32: 1, torch.float64: 2, torch.bfloat16: 3, torch.float16: 4}

SIZES = {dtype: dtype.itemsize for dtype in TYPES}
_PLAIN = frozenset(PLAIN)
_dtype, _is_cpu = attrgetter("dtype"), attrgetter("is_cpu")

# The fields, each eight bytes for every parameter, as the native code reads them.
PARAMETER, BEFORE, GRADIENT, FIRST, SECOND, THRESHOLD = range(6)
TYPE_OF = {PARAMETER: 6, GRADIENT: 7, FIRST: 8, SECOND: 9}
COUNT = 10
FIELDS = 11
# Copies begin at a cache line.
LINE = 64

Tensors = Sequence[Tensor | None]
# Addresses and types.
Found = tuple[list[int], list[int]]


class MemoryTable:
    """Each parameter's tensors, field by field, and the buffers of their copies."""

    def __init__(self, parameters: Sequence[Tensor], selected: Groups) -> None:
        counts = [parameter.numel() for parameter in parameters]
        self.fields = np.zeros((FIELDS, len(counts)), np.int64)
        self.fields[COUNT] = counts
        # The copies are made for these types.
        dtypes = [parameter.dtype for parameter in parameters]
        self.parameters = Column(self.fields, PARAMETER, dtypes)
        self.gradients = Column(self.fields, GRADIENT)
        self.first = Column(self.fields, FIRST)
        self.second = Column(self.fields, SECOND)
        self.thresholds_address = self.fields[THRESHOLD].ctypes.data
        self._types = self.fields[TYPE_OF[PARAMETER]]

        room = np.zeros(len(counts), np.int64)
        np.maximum.at(room, selected[:, TENSOR], selected[:, SLOT] + selected[:, BLOCK_LENGTH])
        room = np.minimum(room, counts) * [parameter.element_size() for parameter in parameters]
        self._ends = np.cumsum(-(-room // LINE) * LINE)
        self._begins = self._ends - -(-room // LINE) * LINE
        self._copies = np.empty(self._ends[-1] if counts else 0, np.uint8)
        self.fields[BEFORE] = self._begins + self._copies.ctypes.data

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

    def __init__(
        self,
        fields: NDArray[np.int64],
        field: int,
        dtypes: list[torch.dtype] | None = None,
    ) -> None:
        self._addresses = fields[field]
        self._types = fields[TYPE_OF[field]]
        self._counts: list[int] = fields[COUNT].tolist()
        self._numbers = Struct(f"{len(self._counts)}q")
        # The types that are wanted, if not any will do.
        self._expected = None if dtypes is None else [TYPES.get(dtype, 0) for dtype in dtypes]
        self._wanted = np.array(self._expected or (), np.int64)
        # Only a single number can be plain memory and negated at once.
        self.has_singles = 1 in self._counts
        self._handles = handles()
        self.places = Places(
            fields[COUNT].ctypes.data,
            0 if dtypes is None else self._wanted.ctypes.data,
            self._addresses.ctypes.data,
            self._types.ctypes.data,
        )
        # Tensors that are there but that the library cannot read.
        self.unread: list[int] = []

    def refresh(self, tensors: Tensors) -> None:
        """Write where these tensors are now."""
        self.unread = []
        if self._are_located(tensors):
            return
        addresses, types = look_up(tensors, self._counts) or self._look_up_each(tensors)
        if self._expected is not None and types != self._expected:
            addresses, types = self._look_up_each(tensors)
        self._numbers.pack_into(self._addresses, 0, *addresses)
        self._numbers.pack_into(self._types, 0, *types)
        if not all(types):
            self.unread = [i for i, t in enumerate(tensors) if t is not None and not types[i]]

    def _are_located(self, tensors: Tensors) -> bool:
        if self._handles is None or not self._handles.locate(*self.places, list(tensors)):
            return False
        return not (self.has_singles and any(t.is_neg() for t in tensors if t is not None))

    def _look_up_each(self, tensors: Tensors) -> Found:
        """As `look_up`, with zeros for what is absent or cannot be read."""

        def one(i: int) -> tuple[int, int]:
            found = look_up([tensors[i]], [self._counts[i]])
            return (0, 0) if found is None else (found[0][0], found[1][0])

        addresses, types = [0] * len(tensors), [0] * len(tensors)
        rows = [i for i, tensor in enumerate(tensors) if tensor is not None]
        found = look_up([tensors[i] for i in rows], [self._counts[i] for i in rows])
        pairs = map(one, rows) if found is None else zip(*found, strict=True)
        for i, (place, kind) in zip(rows, pairs, strict=True):
            if self._expected is None or kind == self._expected[i]:
                addresses[i], types[i] = place, kind
        return addresses, types


def look_up(tensors: Tensors, counts: list[int]) -> Found | None:
    """Addresses and types, if those are all that is needed to read each one of these tensors.

    The loops stay inside C functions: where torch has no C interface for it, gradients are looked
    up here in every step.
    """
    if not _PLAIN.issuperset(map(type, tensors)):
        return None
    plain = cast(Sequence[Tensor], tensors)
    dtypes = list(map(_dtype, plain))
    try:
        if (
            not TYPES.keys() >= set(dtypes)
            or not all(map(_is_cpu, plain))
            or not all(map(Tensor.is_contiguous, plain))
            or list(map(Tensor.numel, plain)) != counts
            or (1 in counts and any(map(Tensor.is_neg, plain)))
        ):
            return None
        ends = map(add, map(Tensor.storage_offset, plain), counts)
        storages = map(torch.UntypedStorage.nbytes, map(Tensor.untyped_storage, plain))
        if not all(map(ge, storages, map(mul, ends, map(SIZES.__getitem__, dtypes)))):
            return None
    except (NotImplementedError, RuntimeError):  # a sparse tensor has no storage
        return None
    addresses = list(map(Tensor.data_ptr, plain))
    # A tensor of zeros may have no memory at all.
    if not all(map(or_, addresses, map(not_, counts))):
        return None
    return addresses, list(map(TYPES.__getitem__, dtypes))
