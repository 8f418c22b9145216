"""Unigram and bigram entropy of the tokens seen: the loss of knowing only frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

# Pairs beyond are not kept: the floors of more would be the same.
MAX_PAIRS = 1 << 18
LARGEST = 1 << 31
MAX_WAITING = 16
# Pairs seen less often than this on average are memorised, not estimated.
MIN_SIGHTINGS = 4


class TokenPairs:
    """Keeps which token follows which in the batches, and counts when it is asked."""

    def __init__(self) -> None:
        # Pairs as one number each, and how often each was seen.
        self._pairs = np.zeros(0, dtype=np.int64)
        self._sightings = np.zeros(0, dtype=np.int64)
        # Rows of tokens that are not counted yet, and pairs in all of them so far.
        self._waiting: list[NDArray[np.integer[Any]]] = []
        self._taken = self._counted = 0

    def add(self, tokens: Tensor) -> None:
        """Take in rows of tokens.

        >>> import torch
        >>> pairs = TokenPairs()
        >>> pairs.add(torch.tensor([[1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1]]))
        >>> {name: round(value, 4) for name, value in pairs.floors().items()}
        {'pairs': 10.0, 'unigram': 0.6931, 'bigram': 0.0}
        """
        room, width = MAX_PAIRS - self._taken, tokens.shape[-1] if tokens.dim() else 0
        if room <= 0 or width < 2:
            return
        # Only a copy: this is done right after a backward pass, where all else is slow.
        rows = tokens.detach().cpu().numpy().reshape(-1, width)
        rows = rows[: -(-room // (width - 1)), : room + 1].copy()
        self._waiting.append(rows)
        self._taken += rows.size - len(rows)
        # Seldom, where much is known: counting sorts all of that anew.
        enough = self._taken - self._counted > 2 * len(self._pairs)
        if enough and len(self._waiting) >= MAX_WAITING:
            self._fold()

    def _fold(self) -> None:
        """Count what waits: a pair that is seen again takes no more room."""
        found = np.concatenate([_codes(rows) for rows in self._waiting])
        room = MAX_PAIRS - int(self._sightings.sum())
        pairs, sightings = np.unique(found[:room], return_counts=True)
        self._waiting.clear()
        self._counted = self._taken
        both = np.concatenate([self._pairs, pairs])
        self._pairs, places = np.unique(both, return_inverse=True)
        counts = np.concatenate([self._sightings, sightings])
        self._sightings = np.bincount(places, counts, len(self._pairs)).astype(np.int64)

    def floors(self) -> dict[str, float]:
        """Nats per token of the seen pairs: by the frequency of tokens, and by the token before.

        The second is left out where pairs were seen too seldom to be more than learnt by heart.
        """
        if self._waiting:
            self._fold()
        pairs, sightings = self._pairs, self._sightings
        count = int(sightings.sum())
        if not count:
            return {}
        following = _grouped(pairs & 0xFFFFFFFF, sightings)
        found = {"pairs": float(count), "unigram": _entropy(following)}
        if count >= MIN_SIGHTINGS * len(pairs):
            before = _grouped(pairs >> 32, sightings)
            # Entropy of the pairs minus entropy of the first tokens.
            found["bigram"] = max(0.0, _entropy(sightings) - _entropy(before))
        return found


def _codes(rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Tokens that follow each other in a row as one number each, those that are tokens."""
    first, second = rows[:, :-1].astype(np.int64), rows[:, 1:].astype(np.int64)
    there = (first >= 0) & (second >= 0) & (second < LARGEST)
    return ((first << 32) | second)[there]


def _grouped(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each key was seen in all."""
    known, places = np.unique(keys, return_inverse=True)
    return np.bincount(places, counts, len(known)).astype(np.int64)


def _entropy(counts: NDArray[np.int64]) -> float:
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())
