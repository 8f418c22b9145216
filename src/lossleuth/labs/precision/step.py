"""A training step as the laboratory sees it: logits, targets, and what a gradient of them moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

# Numbers that are looked at in 80 bits: some hundred megabytes, and seconds.
MAX_NUMBERS = 1 << 21


@dataclass(frozen=True)
class Step:
    """Rows of logits with their targets, and how a gradient of them becomes an update.

    Where only logits are known, what they would move is the bias of the last layer, by plain
    descent: its gradient is the sum of the rows' gradients.
    """

    source: str
    logits_NV: Tensor  # float32
    targets_N: Tensor
    # Which of the two halves of the batch a row is in.
    half_N: Tensor
    # From a gradient of the logits to that of all parameters in one row, both float64.
    pull: Callable[[Tensor], Tensor] = field(default=lambda g_NV: g_NV.sum(0))
    # From a gradient to what is taken off the parameters, up to the rate.
    update: Callable[[Tensor], Tensor] = field(default=lambda gradient: gradient)
    moves: str = "an output bias, by plain descent"
    # Tensors by what they are, for their range.
    classes: Mapping[str, Sequence[Tensor]] = field(default_factory=dict)


def shift_of_update(step: Step, gradient_NV: Tensor, changed_NV: Tensor) -> float:
    """How far an update is off if the logits' gradient is off, as a share of its size.

    >>> two = Step("", torch.zeros(2, 2), torch.tensor([0, 1]), torch.tensor([True, False]))
    >>> true = torch.tensor([[3.0, 0.0], [0.0, 4.0]]).double()
    >>> shift_of_update(two, true, true * 1.5)
    0.5
    """
    true = step.update(step.pull(gradient_NV))
    # The pull is linear: what is added is pulled by itself, so that nothing cancels.
    other = step.update(step.pull(gradient_NV) + step.pull(changed_NV - gradient_NV))
    size = float(true.norm())
    return float((other - true).norm()) / size if size else float("nan")


def most_rows(vocabulary: int, wanted: int) -> int:
    """How many rows fit into what is looked at.

    >>> most_rows(32_000, 4096)
    65
    """
    return max(2, min(wanted, MAX_NUMBERS // vocabulary))


def drawn_targets(logits_NV: Tensor, seed: int) -> Tensor:
    """Targets as the model expects them: drawn from its own probabilities."""
    generator = torch.Generator().manual_seed(seed)
    p_NV = logits_NV.double().softmax(-1)
    return torch.multinomial(p_NV, 1, generator=generator).squeeze(1)
