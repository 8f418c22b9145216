"""Replace tokens by others."""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.tape.replay.errors import CannotReplay


def others_than(tokens: Tensor, present: Tensor) -> Tensor:
    """For each token another one that occurs in the batch."""
    known = torch.unique(tokens)
    if len(known) < 2:
        raise CannotReplay("all tokens of the batch are the same")
    place = torch.searchsorted(known, present.contiguous())
    far: Tensor = known[(place + 1 + len(known) // 2) % len(known)]
    return torch.where(far != present, far, known[(place + 1) % len(known)])
