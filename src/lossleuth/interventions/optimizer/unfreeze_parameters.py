"""Parameters that an optimizer has, and that want no gradient, want one."""

from __future__ import annotations

import torch

from lossleuth.interventions.intervention import Intervention, parameters_of


class UnfreezeParameters(Intervention):
    """Ask for gradients of all that is to be trained, from the first update on."""

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Ask for them."""
        for parameter in parameters_of(optimizer):
            if parameter.is_leaf and parameter.is_floating_point():
                parameter.requires_grad_()
