"""Unigram entropy of the targets seen so far: the loss of knowing only their frequencies."""

from __future__ import annotations

import numpy as np
from torch import Tensor

LARGEST = 1 << 20


class TargetCounts:
    """Counts targets, often at first and then rarely, so that it costs next to nothing."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)

    def add(self, targets: Tensor, ignored: int) -> None:
        """Count a batch of targets.

        >>> import torch
        >>> counts = TargetCounts()
        >>> counts.add(torch.tensor([3, 5, 3, 5, -100]), -100)
        >>> round(counts.entropy(), 4)
        0.6931
        """
        values = targets.detach().cpu().reshape(-1).numpy()
        values = values[(values != ignored) & (values >= 0) & (values < LARGEST)]
        counted = np.bincount(values, minlength=len(self._counts))
        counted[: len(self._counts)] += self._counts
        self._counts = counted

    def entropy(self) -> float | None:
        """Nats per token, or None before anything was counted."""
        total = self._counts.sum()
        if not total:
            return None
        shares = self._counts[self._counts > 0] / total
        return float(-(shares * np.log(shares)).sum())
