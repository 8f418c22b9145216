"""KL divergence of a student's distributions from a teacher's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lossleuth.kernels.handover import hand_over, refuse_second_derivative
from lossleuth.kernels.loss_interface import (
    Reduction,
    options_of,
    readable,
    reduced,
    require_logits,
    require_reduction,
    require_rows,
    room_for,
)
from lossleuth.kernels.overwriting import mark_changed, refuse_if_needed
from lossleuth.kernels.row_losses import Options, divergence_rows
from lossleuth.kernels.supervision import flat_mask_of


def kl_divergence(
    student: Tensor,
    teacher: Tensor,
    temperature: float = 1.0,
    *,
    mask: Tensor | None = None,
    reduction: Reduction = "mean",
    inplace: bool = False,
    exact: bool = False,
) -> Tensor:
    """How far the student's distribution is from the teacher's, KL(teacher ‖ student), times T².

    Both logits are divided by the temperature T; the factor T² keeps the gradient's size the same
    at any temperature (Hinton). The mean is over positions, as that of `cross_entropy`. The teacher
    gets no gradient. What it rules out (-inf) adds nothing; what only the student rules out makes
    the divergence infinite. `inplace=True` puts the gradient in the place of the student's logits.

    >>> teacher = torch.tensor([[0.0, -torch.inf]])
    >>> student = torch.zeros(1, 2, requires_grad=True)
    >>> divergence = kl_divergence(student, teacher)
    >>> divergence.backward()
    >>> print(f"{divergence:.4f}", student.grad.tolist())
    0.6931 [[-0.5, 0.5]]
    """
    require_logits(student)
    require_logits(teacher)
    if student.shape != teacher.shape:
        raise ValueError(
            f"expected teacher logits of the student's shape {tuple(student.shape)}, found "
            f"{tuple(teacher.shape)}: both speak of the same positions and vocabulary"
        )
    if teacher.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            "expected teacher logits that do not require grad, found some that do: a teacher that "
            "is trained is no target, so pass teacher.detach()"
        )
    places = tuple(student.shape[:-1])
    flat = flat_mask_of(mask, list(places))
    count = math.prod(places) if flat is None else int(flat.sum())
    require_reduction(reduction, count, places)
    options = options_of(temperature, 0.0, exact)
    other = readable(teacher.detach())
    if student.requires_grad and torch.is_grad_enabled():
        if inplace:
            require_rows(student)
            refuse_if_needed(student)
        apply: Callable[..., Tensor] = _Divergence.apply
        return apply(student, other, flat, count, options, reduction, inplace)
    losses, total = divergence_rows(readable(student.detach()), other, flat, options, None)
    square = temperature**2
    return reduced(losses * square, total * square, count, reduction, student, exact)


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        student: Tensor,
        teacher: Tensor,
        mask: Tensor | None,
        count: int,
        options: Options,
        reduction: Reduction,
        inplace: bool,
    ) -> Tensor:
        square = options.temperature**2
        weighed = options.weighing(square, count, reduction)

        def solve(x: Tensor, gradient: Tensor) -> tuple[Tensor, float]:
            return divergence_rows(readable(x), teacher, mask, weighed, gradient)

        def again(x: Tensor) -> Tensor:
            gradient = room_for(x)
            solve(x, gradient)
            return gradient

        x = student.detach()
        ctx.gradient = x if inplace else room_for(x)
        losses, total = solve(x, ctx.gradient)
        if inplace:
            mark_changed(student)
        else:
            ctx.save_for_backward(student)
        ctx.again = again
        return reduced(losses * square, total * square, count, reduction, student, options.exact)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        return hand_over(ctx, upstream[0]), None, None, None, None, None, None
