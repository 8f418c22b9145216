"""Cross-entropy for vocabularies of any size, with its gradient.

The gradient is computed together with the loss, while a row of logits is in cache, and handed out
in the backward pass. Sums are in float64. With `exact=True` powers are too, and the loss is
returned in float64: right to 1e-15 of itself, and each entry of the gradient to 2e-7 of itself,
also where the target is nearly certain and float32 has nothing left of 1 - p. (At another
temperature than 1 the loss is right to 1e-15 times the largest difference of logits over the
temperature; an entry below 1e-38 of its row's largest probability is 0; with label smoothing the
2e-7 are of the larger part.)

Logits are [N, V] or [B, T, V], the vocabulary last, in float32 or bfloat16 on the CPU; of any other
floating-point type or device torch does the work. Every loss is float32 unless it is exact or the
logits are float64. Gradients have the logits' type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from lossleuth.kernels.handover import hand_over, refuse_second_derivative
from lossleuth.kernels.loss_interface import (
    Array,
    Reduction,
    options_of,
    readable,
    reduced,
    require_logits,
    require_reduction,
    require_rows,
    room_for,
    tensor_of,
)
from lossleuth.kernels.overwriting import mark_changed, refuse_if_needed
from lossleuth.kernels.row_losses import Options, cross_entropy_rows
from lossleuth.kernels.supervision import Supervision, supervise


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    *,
    ignore_index: int = -100,
    mask: Tensor | None = None,
    temperature: float = 1.0,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
    inplace: bool = False,
    exact: bool = False,
) -> Tensor:
    """Cross-entropy of logits and target columns, as `torch.nn.functional.cross_entropy`.

    It differs where torch's answer helps nobody: a mean over no positions is refused
    (`NothingSupervised`) instead of NaN, a target that is no column is refused with its place, and
    a position that is ignored gets a gradient of 0 even where its logits are NaN. As in torch, NaN
    and rows of nothing but -inf give NaN, and logits of -inf a gradient of 0.

    `mask` is True where a position counts, in addition to `ignore_index`. Logits are divided by
    `temperature`. With `inplace=True` the gradient takes the place of the logits, which must not be
    used afterwards; that is refused where autograd still needs them. The gradient has no derivative
    of its own: `create_graph=True` is refused.

    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    >>> loss = cross_entropy(logits, torch.tensor([0, -100]))
    >>> loss.backward()
    >>> print(f"{loss:.4f}", logits.grad[0].numpy().round(4), logits.grad[1].tolist())
    0.2395 [-0.213   0.1065  0.1065] [0.0, 0.0, 0.0]

    A target that is nearly certain:

    >>> sure = torch.tensor([[25.0, 0.0]])
    >>> print(f"{cross_entropy(sure, torch.tensor([0]), exact=True):.6e}")
    1.388794e-11
    """
    require_logits(logits)
    options = options_of(temperature, label_smoothing, exact)
    supervision = supervise(targets, mask, logits.shape, ignore_index)
    require_reduction(reduction, supervision.count, targets.shape)
    if logits.requires_grad and torch.is_grad_enabled():
        if inplace:
            require_rows(logits)
            refuse_if_needed(logits)
        apply: Callable[..., Tensor] = _CrossEntropy.apply
        return apply(logits, _Task(supervision, options, reduction, inplace))
    x, each = readable(logits.detach()), reduction == "none"
    losses, total = cross_entropy_rows(x, supervision, options, None, each)
    return reduced(losses, total, supervision.count, reduction, logits, exact)


def cross_entropy_with_gradient(
    logits: Tensor | Array,
    targets: Tensor | Array,
    *,
    ignore_index: int = -100,
    mask: Tensor | Array | None = None,
    temperature: float = 1.0,
    label_smoothing: float = 0.0,
    reduction: Literal["mean", "sum"] = "mean",
    inplace: bool = False,
    exact: bool = False,
) -> tuple[float, Any, int]:
    """Loss, gradient of the logits, and how many positions count, for a backward pass by hand.

    Takes torch tensors or numpy arrays, and gives the gradient back as what the logits are. The
    loss is a Python float. Otherwise as `cross_entropy`; autograd sees nothing of it.

    >>> import numpy as np
    >>> logits = np.zeros((2, 4), np.float32)
    >>> loss, gradient, count = cross_entropy_with_gradient(logits, np.array([1, -100]))
    >>> round(loss, 4), gradient.tolist(), count
    (1.3863, [[0.25, -0.75, 0.25, 0.25], [0.0, 0.0, 0.0, 0.0]], 1)
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(
            f"expected reduction 'mean' or 'sum', found {reduction!r}: a gradient is of one number"
        )
    x = tensor_of(logits, inplace)
    require_logits(x)
    options = options_of(temperature, label_smoothing, exact)
    given_mask = None if mask is None else tensor_of(mask)
    supervision = supervise(tensor_of(targets), given_mask, x.shape, ignore_index)
    require_reduction(reduction, supervision.count, x.shape[:-1])
    if inplace:
        require_rows(x)
        if x.requires_grad:
            raise ValueError(
                "expected logits without a history for a gradient in their place, found logits "
                "that require grad: pass logits.detach(), or inplace=False"
            )
        refuse_if_needed(x)
    _, total, gradient = _solve(x.detach(), _Task(supervision, options, reduction, inplace))
    if inplace:
        mark_changed(x)
    loss = total / supervision.count if reduction == "mean" else total
    if isinstance(logits, Tensor):
        return loss, gradient, supervision.count
    return loss, logits if inplace else gradient.numpy(), supervision.count


class _Task(NamedTuple):
    """One object, since autograd looks at each argument."""

    supervision: Supervision
    options: Options
    reduction: Reduction
    inplace: bool


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, task: _Task) -> Tensor:
        x = logits.detach()
        losses, total, ctx.gradient = _solve(x, task)
        if task.inplace:
            mark_changed(logits)
        else:
            ctx.save_for_backward(logits)
        ctx.again = lambda x: _solve(x, task._replace(inplace=False))[2]
        count, exact = task.supervision.count, task.options.exact
        return reduced(losses, total, count, task.reduction, x, exact)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        return hand_over(ctx, upstream[0]), None


def _solve(x: Tensor, task: _Task) -> tuple[Tensor, float, Tensor]:
    """The rows' losses, their sum, and the gradient of what they are reduced to."""
    weighed = task.options.weighing(1.0, task.supervision.count, task.reduction)
    gradient = x if task.inplace else room_for(x)
    each = task.reduction == "none"
    return *cross_entropy_rows(readable(x), task.supervision, weighed, gradient, each), gradient
