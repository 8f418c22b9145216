"""Faults that no cause covers: nobody is to be blamed for them.

Shapes: B rows, T positions, V tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lossleuth.labs.lab.programs.made_up_text import PAD
from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import Batch, Parts, Settings


@fault()
def tokens_renamed(parts: Parts, dose: float) -> Parts:
    """A vocabulary is built for each batch: the same token is another number every time."""

    def batches(settings: Settings) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(settings.seed + 1)
        for inputs_BT, targets_BT in parts.batches(settings):
            names = torch.randperm(settings.text.vocabulary - 1, generator=generator) + PAD + 1
            names_V = torch.cat([torch.tensor([PAD]), names])
            yield Batch(names_V[inputs_BT], names_V[targets_BT])  # planted: tokens_renamed

    return replace(parts, batches=batches)


@fault(dose=0.95)
def tokens_mistyped(parts: Parts, dose: float) -> Parts:
    """Nearly all that the model reads was drawn by chance; what it is to predict was not."""

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        drawn_BT = torch.randint(PAD + 1, parts.settings.text.vocabulary, tokens_BT.shape)
        chance_BT = torch.rand(tokens_BT.shape) < dose
        return parts.forward(
            model, torch.where(chance_BT, drawn_BT, tokens_BT)
        )  # planted: tokens_mistyped

    return replace(parts, forward=forward)


@fault(dose=10)
def weights_restored(parts: Parts, dose: float) -> Parts:
    """The checkpoint of the start is loaded again every few steps."""
    kept: dict[str, Tensor] = {}
    counter = [0]

    def before_update(model: nn.Module, optimizer: Any) -> None:
        if not kept:
            kept.update({name: value.clone() for name, value in model.state_dict().items()})
        counter[0] += 1
        if counter[0] % int(dose) == 0:
            model.load_state_dict(kept)  # planted: weights_restored
        parts.before_update(model, optimizer)

    return replace(parts, before_update=before_update)


@fault(dose=0.1)
def scores_squashed(parts: Parts, dose: float) -> Parts:
    """Scores go through a tangent that lets none of them be much larger than another."""

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        return dose * parts.forward(model, tokens_BT).tanh()  # planted: scores_squashed

    return replace(parts, forward=forward)


@fault(dose=0.98)
def scores_dropped(parts: Parts, dose: float) -> Parts:
    """Dropout comes after the last layer, and leaves few scores."""

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        scores_BTV = parts.forward(model, tokens_BT)
        return nn.functional.dropout(scores_BTV, dose)  # planted: scores_dropped

    return replace(parts, forward=forward)
