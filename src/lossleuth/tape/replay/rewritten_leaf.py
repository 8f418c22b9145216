"""A parameter that was written to: another value, and the same leaf of the graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _WithValue(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, leaf: Tensor, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def with_value(leaf: Tensor, value: Tensor) -> Tensor:
    """A value whose gradient is the leaf's.

    >>> leaf = torch.zeros(2, requires_grad=True)
    >>> with_value(leaf, torch.tensor([1.0, 3.0])).square().sum().backward()
    >>> leaf.grad
    tensor([2., 6.])
    """
    made: Tensor = _WithValue.apply(leaf, value)  # type: ignore[no-untyped-call]  # torch's own
    return made
