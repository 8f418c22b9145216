"""Faults in the weights that a run begins with."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import Parts, Settings


@fault()
def dead_network(parts: Parts, dose: float) -> Parts:
    """Weights are allocated and never drawn: all are zero, gains too."""

    def model(settings: Settings) -> nn.Module:
        made = parts.model(settings)
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.zero_()  # planted: dead_network
        return made

    return replace(parts, model=model)


@fault(dose=30, ladder=(100, 30, 10, 3))
def init_too_large(parts: Parts, dose: float) -> Parts:
    """Matrices are drawn so many times too wide."""

    def model(settings: Settings) -> nn.Module:
        made = parts.model(settings)
        with torch.no_grad():
            for parameter in made.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(dose)  # planted: init_too_large
        return made

    return replace(parts, model=model)
