"""What the passes over memory need to know of the parameters, and where they put their results.

All of it depends on the sizes and types of the parameters alone, and is made once for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from lossleuth.native.blocks import TENSOR, groups, is_whole, spans
from lossleuth.native.columns import COLUMNS
from lossleuth.native.fallback import Spans
from lossleuth.native.table import MemoryTable


class Layout:
    """The blocks that a step reads, the table of addresses, and the array of results.

    >>> import torch
    >>> layout = Layout([torch.ones(3), torch.ones(32_768)], every=8)
    >>> layout.results.shape, layout.before_elements, layout.after_elements
    ((2, 15), 36870, 4099)
    """

    def __init__(self, parameters: Sequence[Tensor], every: int) -> None:
        self.counts = [parameter.numel() for parameter in parameters]
        self.dtypes = [parameter.dtype for parameter in parameters]
        self._every = every
        self._everything = groups(self.counts, every=1)
        self._selected = groups(self.counts, every)
        self.after_elements = int(spans(self._selected, self.counts, 0)[1].sum())
        self.before_elements = sum(self.counts) + self.after_elements
        self.table = MemoryTable(parameters, self._selected)
        self.results = np.full((len(parameters), len(COLUMNS)), math.nan)
        self.view = self.results.data
        self._plan = np.array(
            [
                *(self.table.fields.ctypes.data, len(parameters)),
                *(self._everything.ctypes.data, len(self._everything)),
                *(self._selected.ctypes.data, len(self._selected)),
                *(self.results.ctypes.data, len(COLUMNS)),
            ],
            np.int64,
        )
        self.plan_address = self._plan.ctypes.data

    def fits(self, parameters: Sequence[Tensor]) -> bool:
        """Whether these parameters have the sizes and types that all this was made for."""
        sizes, types = [p.numel() for p in parameters], [p.dtype for p in parameters]
        return sizes == self.counts and types == self.dtypes

    def spans_at(self, step: int) -> Spans:
        """Which elements a step reads, in all parameters."""
        return spans(self._selected, self.counts, step)

    def spans_of(self, i: int, of_all: Spans) -> Spans:
        """Those of one parameter."""
        begin, end = np.searchsorted(self._selected[:, TENSOR], (i, i + 1))
        return of_all[0][begin:end], of_all[1][begin:end]

    def is_whole(self, i: int) -> bool:
        """Whether every element of a parameter is read in every step."""
        return is_whole(self.counts[i], self._every)
