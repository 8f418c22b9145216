"""What the seen tokens themselves allow: the loss of knowing frequencies, alone and in pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

# Pairs beyond are not kept: the floors of more would be the same.
MOST_PAIRS = 1 << 18
LARGEST = 1 << 31
MOST_WAITING = 16
# A table of pairs that was seen less often than this, on average, is known by heart.
FEWEST_SIGHTINGS = 4


class TokenPairs:
    """Keeps which token follows which in the batches, and counts when it is asked."""

    def __init__(self) -> None:
        # Pairs as one number each, how often each was seen, and those not yet counted.
        self._pairs = np.zeros(0, dtype=np.int64)
        self._sightings = np.zeros(0, dtype=np.int64)
        self._waiting: list[NDArray[np.int64]] = []
        self._count = self._counted = 0

    def add(self, tokens: Tensor) -> None:
        """Take in rows of tokens.

        >>> import torch
        >>> pairs = TokenPairs()
        >>> pairs.add(torch.tensor([[1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1]]))
        >>> {name: round(value, 4) for name, value in pairs.floors().items()}
        {'pairs': 10.0, 'unigram': 0.6931, 'bigram': 0.0}
        """
        if self._count >= MOST_PAIRS or tokens.dim() < 1 or tokens.shape[-1] < 2:
            return
        rows = tokens.detach().cpu().numpy().astype(np.int64, copy=False)
        codes = (rows[..., :-1] << 32) | rows[..., 1:]
        there = (rows[..., :-1] >= 0) & (rows[..., 1:] >= 0) & (rows[..., 1:] < LARGEST)
        found = codes[there].reshape(-1)[: MOST_PAIRS - self._count]
        self._waiting.append(found)
        self._count += len(found)
        # Seldom, where much is known: counting sorts all of that anew.
        enough = self._count - self._counted > 2 * len(self._pairs)
        if enough and len(self._waiting) >= MOST_WAITING:
            self._fold()

    def _fold(self) -> None:
        """Count what waits: a pair that is seen again takes no more room."""
        pairs, sightings = np.unique(np.concatenate(self._waiting), return_counts=True)
        self._waiting.clear()
        self._counted = self._count
        both = np.concatenate([self._pairs, pairs])
        self._pairs, places = np.unique(both, return_inverse=True)
        counts = np.concatenate([self._sightings, sightings])
        self._sightings = np.bincount(places, counts, len(self._pairs)).astype(np.int64)

    def floors(self) -> dict[str, float]:
        """Nats per token of the seen pairs: by the frequency of tokens, and by the token before.

        The second is left out where pairs were seen too seldom to be more than learnt by heart.
        """
        if not self._count:
            return {}
        if self._waiting:
            self._fold()
        pairs, sightings = self._pairs, self._sightings
        following = _grouped(pairs & 0xFFFFFFFF, sightings)
        found = {"pairs": float(self._count), "unigram": _entropy(following)}
        if self._count >= FEWEST_SIGHTINGS * len(pairs):
            before = _grouped(pairs >> 32, sightings)
            # What both tell, without what the first alone tells.
            found["bigram"] = max(0.0, _entropy(sightings) - _entropy(before))
        return found


def _grouped(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each key was seen in all."""
    known, places = np.unique(keys, return_inverse=True)
    return np.bincount(places, counts, len(known)).astype(np.int64)


def _entropy(counts: NDArray[np.int64]) -> float:
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())
