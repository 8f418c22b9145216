"""Overfit one batch: a sound program learns it by heart."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.interventions.intervention import Intervention, Replace
from lossleuth.torch_internals import LoaderIterator


class FreezeBatch(Intervention):
    """Keep the tokens and targets of the first step and use them in every step."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Tensor] = {}
        self._calls: dict[str, int] = {}
        self._batch: Any = None

    def install(self, replace: Replace) -> None:
        """Wrap token lookups, targets and data loaders."""
        lookup, entropy, likelihood = F.embedding, F.cross_entropy, F.nll_loss
        following = LoaderIterator.__next__

        @functools.wraps(lookup)
        def embedding(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return lookup(self._first("embedding", input), *args, **kwargs)

        @functools.wraps(entropy)
        def cross_entropy(input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return entropy(input, self._first("targets", target), *args, **kwargs)

        @functools.wraps(likelihood)
        def nll_loss(input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return likelihood(input, self._first("targets", target), *args, **kwargs)

        def first_batch(iterator: Any) -> Any:
            batch = following(iterator)
            if self._batch is None:
                self._batch = batch
            return copy.deepcopy(self._batch)

        replace(F, "embedding", embedding)
        replace(F, "cross_entropy", cross_entropy)
        replace(F, "nll_loss", nll_loss)
        replace(LoaderIterator, "__next__", first_batch)

    def _first(self, what: str, tensor: Tensor) -> Tensor:
        if not torch.is_grad_enabled() or tensor.is_floating_point():
            return tensor
        number = self._calls[what] = self._calls.get(what, 0) + 1
        kept = self._kept.setdefault((what, number), tensor.detach().clone())
        return kept if kept.shape == tensor.shape else tensor

    def backward_begins(self, roots: Sequence[Any], *, first: bool) -> None:
        """Reset the counters for the next forward pass."""
        self._calls.clear()
