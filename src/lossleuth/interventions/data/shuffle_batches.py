"""Samples in random order, where a `DataLoader` of torch takes them one after the other.

Whatever else chooses batches is not reached: a sampler of the program's own, a dataset that is
iterated over, a loader of another kind, indexing by hand. Nor is evaluation, where no gradients
are wanted.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch
from torch.utils.data import SequentialSampler

from lossleuth.interventions.intervention import Intervention, Replace

SEED = 4711


class ShuffleBatches(Intervention):
    """Another order in each epoch, the same ones in every run."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(SEED)

    def install(self, replace: Replace) -> None:
        """Let the sampler that the program reads give other numbers."""
        in_order = SequentialSampler.__iter__

        @functools.wraps(in_order)
        def in_another_order(sampler: SequentialSampler) -> Iterator[int]:
            if not torch.is_grad_enabled():
                return in_order(sampler)
            order: list[int] = torch.randperm(len(sampler), generator=self._generator).tolist()
            return iter(order)

        replace(SequentialSampler, "__iter__", in_another_order)
