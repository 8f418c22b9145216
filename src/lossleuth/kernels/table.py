"""Where the tensors of a training step lie in memory, for the native code.

Addresses are taken afresh in every step: gradients are new tensors each time, and weights and
moments can move too. Where nothing moved, finding that out is all that is done.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from operator import add, attrgetter, call, ge, is_, mul
from struct import Struct
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.kernels.blocks import BLOCK_LENGTH, SLOT, TENSOR, Groups

# How the native code numbers element types; 0 is a tensor that is not there.
TYPES = {torch.float32: 1, torch.float64: 2, torch.bfloat16: 3, torch.float16: 4}

SIZES = {dtype: dtype.itemsize for dtype in TYPES}
_dtype, _is_cpu = attrgetter("dtype"), attrgetter("is_cpu")
# Subclasses may keep their values anywhere.
PLAIN = {Tensor, torch.nn.Parameter}

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
        self.parameters = Column(self.fields, PARAMETER, lasting=True, dtypes=dtypes)
        self.gradients = Column(self.fields, GRADIENT, lasting=False)
        self.first = Column(self.fields, FIRST, lasting=True)
        self.second = Column(self.fields, SECOND, lasting=True)
        self._types = self.fields[TYPE_OF[PARAMETER]]
        self._thresholds = self.fields[THRESHOLD]
        self._numbers = Struct(f"{len(counts)}d")

        room = np.zeros(len(counts), np.int64)
        np.maximum.at(room, selected[:, TENSOR], selected[:, SLOT] + selected[:, BLOCK_LENGTH])
        room = np.minimum(room, counts) * [parameter.element_size() for parameter in parameters]
        self._ends = np.cumsum(-(-room // LINE) * LINE)
        self._begins = self._ends - -(-room // LINE) * LINE
        self._copies = np.empty(self._ends[-1] if counts else 0, np.uint8)
        self.fields[BEFORE] = self._begins + self._copies.ctypes.data

    def set_thresholds(self, thresholds: Sequence[float]) -> None:
        """Write the threshold of each second moment's root."""
        self._numbers.pack_into(self._thresholds, 0, *thresholds)

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
        *,
        lasting: bool,
        dtypes: list[torch.dtype] | None = None,
    ) -> None:
        self._addresses = fields[field]
        self._types = fields[TYPE_OF[field]]
        self._counts: list[int] = fields[COUNT].tolist()
        # Faster than numpy, whose code is not in the processor's cache after a backward pass.
        self._numbers = Struct(f"{len(self._counts)}q")
        # Whether the same tensors are expected in the next step, and of which types.
        self._lasting = lasting
        self._expected = None if dtypes is None else [TYPES.get(dtype, 0) for dtype in dtypes]
        # Tensors that are there but that the library cannot read.
        self.unread: list[int] = []
        # What was last looked up, if all of it could be read; weak, since it is the user's.
        self._known: list[Callable[[], Tensor | None]] | None = None
        self._places: list[int] = []
        self._gaps = False

    def refresh(self, tensors: Tensors) -> None:
        """Write where these tensors are now."""
        if self._unmoved(tensors):
            return
        self._known = None
        addresses, types = look_up(tensors, self._counts) or self._look_up_each(tensors)
        if self._expected is not None and types != self._expected:
            addresses, types = self._look_up_each(tensors)
        self._numbers.pack_into(self._addresses, 0, *addresses)
        self._numbers.pack_into(self._types, 0, *types)
        self.unread = []
        if not all(types):
            self.unread = [i for i, t in enumerate(tensors) if t is not None and not types[i]]
        if self._lasting and not self.unread:
            self._gaps = any(t is None for t in tensors)
            self._places = [addresses[i] for i, t in enumerate(tensors) if t is not None]
            self._known = [_nothing if t is None else weakref.ref(t) for t in tensors]

    def _unmoved(self, tensors: Tensors) -> bool:
        if self._known is None or len(self._known) != len(tensors):
            return False
        if not all(map(is_, map(call, self._known), tensors)):
            return False
        # A tensor cannot have been given less memory, or none, and still be where it was.
        there = cast(Iterator[Tensor], filter(_is_there, tensors) if self._gaps else tensors)
        return list(map(Tensor.data_ptr, there)) == self._places

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


def _nothing() -> None:
    """In place of a reference to a tensor that is absent."""


def _is_there(tensor: Tensor | None) -> bool:
    return tensor is not None


def look_up(tensors: Tensors, counts: list[int]) -> Found | None:
    """Addresses and types, if those are all that is needed to read each one of these tensors.

    The loops stay inside C functions: gradients are looked up in every step.
    """
    if not PLAIN.issuperset(map(type, tensors)):
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
    return list(map(Tensor.data_ptr, plain)), list(map(TYPES.__getitem__, dtypes))
