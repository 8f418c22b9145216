"""Checks whether parameters stay unchanged while no optimizer update is seen.

An update can be made where no hook sees it: in compiled code, in a kernel, by an optimizer that is
none of torch's. Its mark is on the parameters.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch
from torch import Tensor

_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Resting:
    """Parameters of some optimizers, as they were."""

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        parameters = [parameter for group in groups for parameter in group["params"]]
        self._before = [(weakref.ref(p), bits(p)) for p in parameters if _is_plain(p)]

    def moved(self) -> tuple[int, int]:
        """How many have changed since, and of how many."""
        now = [(reference(), before) for reference, before in self._before]
        there = [(parameter, before) for parameter, before in now if parameter is not None]
        return sum(bits(parameter) != before for parameter, before in there), len(there)


def bits(tensor: Tensor) -> int:
    """A sum over a tensor's bits, the same however it is added up.

    >>> weight = torch.zeros(2, 3)
    >>> before = bits(weight)
    >>> weight[1, 2] = 1e-30
    >>> bits(weight) == before
    False
    """
    whole = tensor.detach().view(_WHOLE[tensor.element_size()])
    return int(whole.sum(dtype=torch.int64))


def _is_plain(tensor: Tensor) -> bool:
    """Whether the bits lie in memory; of other kinds of tensors nobody knows where."""
    if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.is_meta:
        return False
    return tensor.layout is torch.strided and tensor.is_floating_point()
