"""Gradients computed with the loss and returned in the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def hand_over(ctx: Any, upstream: Tensor) -> Tensor:
    """The gradient of `ctx`, times what comes from above; made again where it was handed out.

    Handed out and not kept, so that torch need not copy it into the leaf's `.grad`. A second
    backward pass (`retain_graph=True`) finds it gone, and `ctx.again` makes another of the input
    that was saved; where the gradient took the input's place, there is none.
    """
    gradient, ctx.gradient = ctx.gradient, None
    if gradient is None:
        refuse_overwritten(ctx)
        gradient = ctx.again(ctx.saved_tensors[0].detach())
    return scaled(gradient, upstream)


def refuse_overwritten(ctx: Any) -> None:
    """Refuse a second pass where the first one's gradient took the input's place."""
    if not ctx.saved_tensors:
        raise RuntimeError(
            "expected one backward pass, found a second through a loss with inplace=True: its "
            "logits are gone, so pass inplace=False"
        )


def scaled(gradient: Tensor, upstream: Tensor) -> Tensor:
    """A gradient times what comes from above, in its own memory; untouched where that is 1.

    >>> scaled(torch.ones(2, 2), torch.tensor([1.0, 3.0])).tolist()
    [[1.0, 1.0], [3.0, 3.0]]
    """
    if upstream.dim():
        return gradient.mul_(upstream.unsqueeze(-1))
    return gradient if float(upstream) == 1 else gradient.mul_(upstream)


def refuse_second_derivative() -> None:
    """Refuse a backward pass that is to be differentiated itself."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "expected a first derivative, found create_graph=True: the gradient of this loss was "
            "computed without a graph and has no derivative of its own; use "
            "torch.nn.functional.cross_entropy for second derivatives"
        )
