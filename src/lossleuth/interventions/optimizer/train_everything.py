"""Everything trained that the model uses: what was frozen asks for gradients, and is updated."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from lossleuth.interventions.intervention import Replace
from lossleuth.interventions.optimizer.add_missing_parameters import AddMissingParameters


class TrainEverything(AddMissingParameters):
    """Unfreeze what is used where gradients are taken: a teacher without them stays as it is."""

    def install(self, replace: Replace) -> None:
        """Visit every module before its forward pass."""
        call = nn.Module.__call__

        @functools.wraps(call)
        def unfrozen(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            _unfreeze(module)
            return call(module, *args, **kwargs)

        replace(nn.Module, "__call__", unfrozen)


def _unfreeze(module: nn.Module) -> None:
    if torch.is_grad_enabled():
        for parameter in module.parameters(recurse=False):
            if parameter.is_leaf and parameter.is_floating_point():
                parameter.requires_grad_()
