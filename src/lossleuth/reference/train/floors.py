"""The losses that a model reaches by knowing nothing, one, or two things about its data.

A loss at ln V knows nothing, at the unigram entropy only how frequent tokens are, at the bigram
entropy only which token follows which. Where a loss *stops* among these says what is not learned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lossleuth.reference.train.data import Span, Tokens


@dataclass(frozen=True)
class Floors:
    """Nats per token."""

    uniform: float
    unigram: float
    bigram: float


def loss_floors(tokens: Tokens, spans: Sequence[Span], vocabulary: int) -> Floors:
    """Entropies of the targets of `spans`: ln V, unigram, and bigram given the token before.

    >>> tokens = np.array([0, 1, 2, 1, 2, 1, 2, 0], dtype="<u2")
    >>> floors = loss_floors(tokens, [Span(1, 6)], vocabulary=4)
    >>> round(floors.uniform, 4), round(floors.unigram, 4), round(floors.bigram, 4)
    (1.3863, 0.673, 0.0)
    """
    before = np.concatenate([tokens[s.start : s.stop] for s in spans]).astype(np.int64)
    after = np.concatenate([tokens[s.start + 1 : s.stop + 1] for s in spans]).astype(np.int64)
    unigram = _entropy(np.bincount(after))
    pairs = _entropy(np.unique(before * vocabulary + after, return_counts=True)[1])
    # H(after | before) = H(before, after) - H(before).
    return Floors(math.log(vocabulary), unigram, max(0.0, pairs - _entropy(np.bincount(before))))


def _entropy(counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return max(0.0, float(-(shares * np.log(shares)).sum()))
