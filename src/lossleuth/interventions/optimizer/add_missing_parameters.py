"""The optimizer given what the loss depends on and it does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention, parameters_of
from lossleuth.tape.capture.graph_leaves import leaves_behind


class AddMissingParameters(Intervention):
    """Train the leaves that no optimizer has by AdamW, at the rate of the program's own."""

    def __init__(self) -> None:
        self._held: dict[int, Tensor] = {}
        self._reached: dict[int, Tensor] = {}
        self._own: torch.optim.Optimizer | None = None

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        """Note the parameters of each optimizer."""
        self._held |= {id(p): p for p in parameters_of(optimizer)}

    def backward_begins(self, roots: Sequence[Any], *, first: bool) -> None:
        """Note what the loss depends on, and clear our gradients at the start of a step."""
        found = {id(leaf): leaf for leaf in leaves_behind(roots)}
        if first:
            for key, leaf in found.items():
                if key not in self._held:
                    leaf.grad = None
        self._reached |= found

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Note parameters that were added since."""
        self._held |= {id(p): p for p in parameters_of(optimizer)}

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Update the rest."""
        missing = [leaf for key, leaf in self._reached.items() if key not in self._held]
        if not missing:
            return
        rate = float(optimizer.param_groups[0].get("lr", 1e-3))
        own = self._own
        if own is None or len(own.param_groups[0]["params"]) != len(missing):
            own = self._own = torch.optim.AdamW(missing, lr=rate, weight_decay=0.0)
        own.param_groups[0]["lr"] = rate
        own.step()
