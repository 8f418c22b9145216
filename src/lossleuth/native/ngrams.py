"""A mixture of n-grams that scores what it has not learnt yet: what counting alone can tell.

Orders 0 to 5: the longest context is five tokens. Each order spreads what it has not seen as the
shorter one does, by how many different followers its context had (Witten and Bell); orders are
mixed by how well they predicted until then, and none is forgotten for good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lossleuth.native import library as native

# As in `ngrams.cpp`.
ORDERS = 6
# Contexts and followers beyond are not learnt: they would take more than 256 MB.
MAX_ENTRIES = 1 << 23
# The share of the weights that is dealt out anew at each target.
FORGOTTEN = 0.002

Rows = NDArray[np.int32]


class Ngrams(Protocol):
    """A mixture in the making."""

    def score(self, tokens: Rows, targets: Rows) -> float:
        """The sum of the losses of targets, where they are not negative, behind their tokens."""

    def learn(self, tokens: Rows, targets: Rows) -> None:
        """Count the same."""


def ngrams(vocabulary: int, most: int = MAX_ENTRIES) -> Ngrams:
    """One that has learnt nothing: by the native library, where it is there.

    >>> mixture, row = ngrams(2), np.array([[0, 1, 0, 1]], dtype=np.int32)
    >>> round(mixture.score(row, 1 - row), 4) == round(4 * math.log(2), 4)
    True
    >>> mixture.learn(row, 1 - row)
    >>> mixture.score(row, 1 - row) < 4 * math.log(2)
    True
    """
    library = native.load()
    if library is None:
        return NgramsInPython(vocabulary, most)
    return _Native(library, vocabulary, most)


class _Native:
    def __init__(self, library: native.Library, vocabulary: int, most: int) -> None:
        self._calls = library.ngrams
        self._mixture = self._calls.make(vocabulary, most, FORGOTTEN)
        if not self._mixture:
            raise MemoryError("no memory for a mixture of n-grams")

    def __del__(self) -> None:
        self._calls.free(self._mixture)

    def score(self, tokens: Rows, targets: Rows) -> float:
        return float(self._calls.score(*self._arguments(tokens, targets)[:5]))

    def learn(self, tokens: Rows, targets: Rows) -> None:
        if self._calls.learn(*self._arguments(tokens, targets)[:5]):
            raise MemoryError("no memory for more n-grams")

    def _arguments(self, tokens: Rows, targets: Rows) -> tuple[Any, ...]:
        rows, width = tokens.shape
        kept = np.ascontiguousarray(tokens, np.int32), np.ascontiguousarray(targets, np.int32)
        return (self._mixture, *(each.ctypes.data for each in kept), rows, width, kept)


class NgramsInPython:
    """The same in dictionaries."""

    def __init__(self, vocabulary: int, most: int = MAX_ENTRIES) -> None:
        self._uniform = 1 / vocabulary
        self._most = most
        # How often a context was seen, with how many followers; how often a follower.
        self._contexts: dict[tuple[int, ...], tuple[int, int]] = {}
        self._followers: dict[tuple[tuple[int, ...], int], int] = {}
        self._weights = [1 / ORDERS] * ORDERS

    def score(self, tokens: Rows, targets: Rows) -> float:
        """As `Ngrams` says."""
        return sum(self._loss(contexts, target) for contexts, target in _examples(tokens, targets))

    def learn(self, tokens: Rows, targets: Rows) -> None:
        """As `Ngrams` says."""
        for contexts, target in _examples(tokens, targets):
            for context in contexts:
                times = self._followers.get((context, target), 0)
                has_room = len(self._followers) + len(self._contexts) + 2 <= self._most
                if not times and not has_room:
                    continue
                self._followers[context, target] = times + 1
                count, followers = self._contexts.get(context, (0, 0))
                self._contexts[context] = (count + 1, followers + (times == 0))

    def _loss(self, contexts: list[tuple[int, ...]], target: int) -> float:
        chance, chances = self._uniform, []
        for order in range(ORDERS):
            context = contexts[order] if order < len(contexts) else None
            if context is not None and context in self._contexts:
                count, followers = self._contexts[context]
                times = self._followers.get((context, target), 0)
                chance = (times + followers * chance) / (count + followers)
            chances.append(chance)
        mixed = sum(w * c for w, c in zip(self._weights, chances, strict=True))
        self._weights = [
            (1 - FORGOTTEN) * w * c / mixed + FORGOTTEN / ORDERS
            for w, c in zip(self._weights, chances, strict=True)
        ]
        return -math.log(mixed)


def _examples(tokens: Rows, targets: Rows) -> Iterator[tuple[list[tuple[int, ...]], int]]:
    """Contexts of each target in its row, the shortest first."""
    for row, wanted in zip(tokens.tolist(), targets.tolist(), strict=True):
        for at, target in enumerate(wanted):
            if target >= 0:
                longest = min(ORDERS - 1, at + 1)
                yield [tuple(row[at + 1 - n : at + 1]) for n in range(longest + 1)], target
