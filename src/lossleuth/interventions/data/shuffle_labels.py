"""Targets permuted among the supervised positions of a batch: what is left to learn is how often.

The gradient of the plain cross-entropy of those targets is followed, so a factor, smoothing and
other terms of the program's loss fall away, as in `follow_cross_entropy`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.interventions.loss.follow_cross_entropy import FollowCrossEntropy
from lossleuth.probes.loss.true_loss import is_supervised, target_values
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.window import Window

SEED = 4711


class ShuffleLabels(FollowCrossEntropy):
    """Another permutation for each batch, the same ones in every run."""

    wants_tape = True

    def __init__(self) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(SEED)

    def _targets(self, window: Window, roles: Roles) -> Tensor | None:
        targets = target_values(window, roles).reshape(-1)
        counted = is_supervised(targets, roles.ignored, roles.vocabulary or 0)
        chosen = counted.nonzero().squeeze(1)
        order = torch.randperm(len(chosen), generator=self._generator).to(chosen.device)
        shuffled = targets.clone()
        shuffled[chosen] = targets[chosen[order]]
        return None if torch.equal(shuffled, targets) else shuffled
