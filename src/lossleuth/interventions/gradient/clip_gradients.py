"""Gradients clipped by their global norm before each update, beside what the program does.

The norm is that of all that one optimizer updates, and the arithmetic that of torch's own clipping.
Updates without an optimizer are not reached.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention, parameters_of

# What torch adds to a norm, so that nothing is divided by zero.
EPSILON = 1e-6


class ClipGradients(Intervention):
    """Shorten the gradient to `norm` where it is longer."""

    only_scales_gradients = True

    def __init__(self, norm: float) -> None:
        self._norm = norm

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Clip in place, as a program would: torch's function is not used, it is being watched."""
        gradients = [p.grad for p in parameters_of(optimizer) if p.grad is not None]
        if not gradients:
            return
        # A fused optimizer takes a scaled loss's scale back by itself, later.
        scale = getattr(optimizer, "grad_scale", None)
        limit = self._norm if scale is None else self._norm * float(scale)
        with torch.no_grad():
            factor = (limit / (_norm(gradients) + EPSILON)).clamp(max=1.0)
            for gradient in gradients:
                gradient.mul_(factor.to(gradient.device))


def _norm(gradients: list[Tensor]) -> Tensor:
    """The norm of the norms of all of them."""
    dense = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    norms = [torch.linalg.vector_norm(g).to(dense[0].device) for g in dense]
    whole: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return whole
