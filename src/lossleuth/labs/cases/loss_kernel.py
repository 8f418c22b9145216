"""A cross-entropy written by hand, forward and backward, as in the first two founding programs.

It is right. Both investigations suspected it.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function


class LossKernel(Function):
    """Mean cross-entropy of rows of scores."""

    @staticmethod
    def forward(ctx: Any, scores_NV: Tensor, targets_N: Tensor) -> Tensor:
        """The mean over the rows."""
        logarithms_NV = scores_NV.log_softmax(-1)
        ctx.save_for_backward(logarithms_NV, targets_N)
        return -logarithms_NV.gather(1, targets_N[:, None]).mean()

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Any:
        """Softmax minus one at the target, over the number of rows."""
        logarithms_NV, targets_N = ctx.saved_tensors
        delta_NV = logarithms_NV.exp()
        delta_NV.scatter_add_(1, targets_N[:, None], -delta_NV.new_ones(len(targets_N), 1))
        return delta_NV * (given / len(targets_N)), None


def cross_entropy(scores_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """The loss of a batch.

    >>> import torch
    >>> round(float(cross_entropy(torch.zeros(1, 2, 8), torch.tensor([[3, 5]]))), 4)
    2.0794
    """
    kernel: Any = LossKernel.apply
    loss: Tensor = kernel(scores_BTV.flatten(0, 1), targets_BT.flatten())
    return loss
