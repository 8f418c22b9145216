"""Sums of rows by five methods, each as it is written in serial code, in the rows' own type.

They are what the precision laboratory measures; the losses add up in float64 and use none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

from lossleuth.native import library as native

# Up to so many terms a pairwise sum is taken one after the other.
LEAF = 8


def row_sums(values_NV: Tensor, method: str) -> Tensor:
    """The sum of each row, as float64 numbers that hold what the method left in its own type.

    Rows of float32 on the CPU are summed by the native library where it is there.

    >>> row_sums(torch.tensor([[1.0, 2.0**-24, 2.0**-24]]), "naive").item() == 1
    True
    >>> row_sums(torch.tensor([[1.0, 2.0**-24, 2.0**-24]]), "kahan").item() == 1 + 2**-23
    True
    """
    if method not in METHODS:
        raise ValueError(f"expected one of {', '.join(METHODS)}, found {method!r}")
    library = native.load()
    if library is None or values_NV.dtype is not torch.float32 or not values_NV.is_cpu:
        return METHODS[method](values_NV).double()
    x = values_NV.detach().contiguous()
    sums = torch.empty(len(x), dtype=torch.float64)
    which = list(METHODS).index(method)
    library.row_sums(x.data_ptr(), len(x), x.shape[1], which, sums.data_ptr())
    return sums


def _zeros(x_NV: Tensor) -> Tensor:
    return x_NV.new_zeros(len(x_NV))


def _naive(x_NV: Tensor) -> Tensor:
    return reduce(torch.add, x_NV.unbind(1), _zeros(x_NV))


def _pairwise(x_NV: Tensor) -> Tensor:
    if x_NV.shape[1] <= LEAF:
        return _naive(x_NV)
    half = x_NV.shape[1] // 2
    return _pairwise(x_NV[:, :half]) + _pairwise(x_NV[:, half:])


def _kahan(x_NV: Tensor) -> Tensor:
    total, lost = _zeros(x_NV), _zeros(x_NV)
    for x_N in x_NV.unbind(1):
        term = x_N - lost
        after = total + term
        lost = (after - total) - term
        total = after
    return total


def _neumaier(x_NV: Tensor) -> Tensor:
    total, lost = _zeros(x_NV), _zeros(x_NV)
    for x_N in x_NV.unbind(1):
        after = total + x_N
        of_term = (total - after) + x_N
        of_total = (x_N - after) + total
        lost = lost + torch.where(total.abs() >= x_N.abs(), of_term, of_total)
        total = after
    return total + lost


def _float64(x_NV: Tensor) -> Tensor:
    return _naive(x_NV.double())


# In the order in which `summation.cpp` numbers them.
METHODS: dict[str, Callable[[Tensor], Tensor]] = {
    "naive": _naive,
    "pairwise": _pairwise,
    "kahan": _kahan,
    "neumaier": _neumaier,
    "float64": _float64,
}
