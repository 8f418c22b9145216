"""Unfreeze the parameters in an optimizer that do not require a gradient."""

from __future__ import annotations

import torch

from lossleuth.interventions.intervention import Intervention, parameters_of


class UnfreezeParameters(Intervention):
    """Set `requires_grad` for all parameters in optimizers, from the first update on."""

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Set `requires_grad`."""
        for parameter in parameters_of(optimizer):
            if parameter.is_leaf and parameter.is_floating_point():
                parameter.requires_grad_()
