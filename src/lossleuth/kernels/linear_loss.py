"""Cross-entropy of a linear layer's logits without holding all of them in memory.

A few rows of logits are computed into one small buffer, their gradient takes their place, and is
multiplied on at once: into the gradient of these rows of hidden states, and onto that of the
weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from lossleuth.kernels.handover import refuse_second_derivative, scaled
from lossleuth.kernels.loss_interface import options_of, reduced, require_reduction, room
from lossleuth.kernels.row_losses import Options, cross_entropy_rows
from lossleuth.kernels.supervision import Supervision, supervise

# Bytes of logits in memory at once. Matrix products of fewer rows are slower.
BUFFER = 128 << 20


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    mask: Tensor | None = None,
    temperature: float = 1.0,
    label_smoothing: float = 0.0,
    reduction: Literal["mean", "sum"] = "mean",
    exact: bool = False,
) -> Tensor:
    """Cross-entropy of `hidden @ weight.T + bias`, without these logits in memory.

    `hidden` is [N, D] or [B, T, D] and `weight` [V, D], of one type. Otherwise as `cross_entropy`.
    Gradients of hidden states and weight are accumulated in the forward pass, the weight's in
    float32 at least. `exact` is of the loss of the logits as they are in `hidden`'s type.

    >>> hidden = torch.tensor([[1.0, 0.0]], requires_grad=True)
    >>> weight = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]], requires_grad=True)
    >>> loss = linear_cross_entropy(hidden, weight, torch.tensor([0]))
    >>> loss.backward()
    >>> print(f"{loss:.4f}", hidden.grad.numpy().round(4), weight.grad[:, 0].numpy().round(4))
    0.2395 [[-0.426   0.1065]] [-0.213   0.1065  0.1065]
    """
    if hidden.dim() not in (2, 3) or weight.dim() != 2 or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"expected hidden states [N, D] or [B, T, D] and a weight [V, D], found "
            f"{tuple(hidden.shape)} and {tuple(weight.shape)}: the weight is that of torch's Linear"
        )
    if hidden.dtype is not weight.dtype or not hidden.is_floating_point():
        raise TypeError(
            f"expected hidden states and weight of one floating-point type, found {hidden.dtype} "
            f"and {weight.dtype}: convert one of them"
        )
    if bias is not None and (bias.shape != weight.shape[:1] or bias.dtype is not weight.dtype):
        raise ValueError(
            f"expected a bias of shape {tuple(weight.shape[:1])} and {weight.dtype}, found "
            f"{tuple(bias.shape)} and {bias.dtype}: one number for each row of the weight"
        )
    if reduction not in ("mean", "sum"):
        raise ValueError(
            f"expected reduction 'mean' or 'sum', found {reduction!r}: the weight's gradient is of "
            "one number"
        )
    places = tuple(hidden.shape[:-1])
    options = options_of(temperature, label_smoothing, exact)
    supervision = supervise(targets, mask, (*places, weight.shape[0]), ignore_index)
    require_reduction(reduction, supervision.count, places)
    task = _Task(supervision, options, reduction)
    apply: Callable[..., Tensor] = _LinearCrossEntropy.apply
    return apply(hidden, weight, bias, task)


@dataclass(frozen=True)
class _Task:
    supervision: Supervision
    options: Options
    reduction: Literal["mean", "sum"]


# Of hidden states, weight and bias, where they are wanted.
_Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, task: _Task
    ) -> Tensor:
        ctx.task = task
        ctx.wanted = ctx.needs_input_grad[:3]
        loss, ctx.gradients = _solve(hidden, weight, bias, task, ctx.wanted)
        ctx.save_for_backward(hidden, weight, bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            hidden, weight, bias = ctx.saved_tensors
            gradients = _solve(hidden, weight, bias, ctx.task, ctx.wanted)[1]
        handed = (g if g is None else scaled(g, upstream[0]) for g in gradients)
        return (*handed, None)


def _solve(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    task: _Task,
    wanted: tuple[bool, bool, bool],
) -> tuple[Tensor, _Gradients]:
    """The loss and its gradients, a few rows at a time."""
    rows = hidden.detach().reshape(-1, hidden.shape[-1])
    weight = weight.detach()
    count, columns = len(rows), len(weight)
    most = max(1, BUFFER // (columns * weight.element_size()))
    step = -(-count // max(1, -(-count // most)))  # as even as it goes
    buffer = room((step, columns), weight.dtype, weight.device)
    precise = torch.promote_types(weight.dtype, torch.float32)
    of_hidden = torch.empty_like(rows) if wanted[0] else None
    of_weight = room(tuple(weight.shape), precise, weight.device) if wanted[1] else None
    if of_weight is not None and not (count and of_weight.dtype is weight.dtype):
        of_weight.zero_()
    of_bias = weight.new_zeros(columns, dtype=precise) if wanted[2] else None
    options = task.options.weighing(1.0, task.supervision.count, task.reduction)
    losses, total = rows.new_zeros(0), 0.0
    for first in range(0, count, max(step, 1)):
        last = min(first + step, count)
        some, logits = rows[first:last], buffer[: last - first]
        if bias is None:
            torch.mm(some, weight.t(), out=logits)
        else:
            torch.addmm(bias.detach(), some, weight.t(), out=logits)
        part = task.supervision.part(first, last)
        losses, of_these = cross_entropy_rows(
            logits, part, options, logits if any(wanted) else None
        )
        total += of_these
        if of_hidden is not None:
            torch.mm(logits, weight, out=of_hidden[first:last])
        if of_weight is not None and of_weight.dtype is weight.dtype:
            # What was in memory before the first rows is not looked at.
            of_weight.addmm_(logits.t(), some, beta=1 if first else 0)
        elif of_weight is not None:
            of_weight += logits.t() @ some
        if of_bias is not None:
            of_bias += logits.sum(0, dtype=precise)
    loss = reduced(losses, total, task.supervision.count, task.reduction, hidden, options.exact)
    return loss, (
        None if of_hidden is None else of_hidden.view(hidden.shape),
        None if of_weight is None else of_weight.to(weight.dtype),
        None if of_bias is None else of_bias.to(weight.dtype),
    )
