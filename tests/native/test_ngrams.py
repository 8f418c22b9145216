"""The mixture of n-grams, against one that is written as it is defined."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from lossleuth.native import library as native
from lossleuth.native.ngrams import FORGOTTEN, ORDERS, Ngrams, NgramsInPython, Rows, ngrams

needs_library = pytest.mark.skipif(native.load() is None, reason="the library was not built")


def texts(seed: int, rows: int = 6, width: int = 30, vocabulary: int = 4) -> tuple[Rows, Rows]:
    """Rows of tokens, and the next tokens as targets, some of which do not count."""
    generator = np.random.default_rng(seed)
    text = generator.integers(0, vocabulary, (rows, width + 1), dtype=np.int32)
    text[:, ::3] = 0
    targets = np.where(generator.random((rows, width)) < 0.2, -1, text[:, 1:])
    return text[:, :-1].copy(), targets.astype(np.int32)


class Oracle:
    """Looks through everything that it was ever told, in float64."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.seen: list[tuple[list[int], int]] = []
        self.weights = np.full(ORDERS, 1 / ORDERS)

    def score(self, tokens: Rows, targets: Rows) -> float:
        total = 0.0
        for text, target in self.examples(tokens, targets):
            chances, chance = np.zeros(ORDERS), 1 / self.vocabulary
            for order in range(ORDERS):
                after = [
                    t
                    for other, t in self.seen
                    if len(text) >= order <= len(other)
                    and (order == 0 or other[-order:] == text[-order:])
                ]
                if after:
                    kinds = len(set(after))
                    chance = (after.count(target) + kinds * chance) / (len(after) + kinds)
                chances[order] = chance
            mixed = self.weights @ chances
            total -= math.log(mixed)
            self.weights = (1 - FORGOTTEN) * self.weights * chances / mixed + FORGOTTEN / ORDERS
        return total

    def learn(self, tokens: Rows, targets: Rows) -> None:
        self.seen += self.examples(tokens, targets)

    @staticmethod
    def examples(tokens: Rows, targets: Rows) -> list[tuple[list[int], int]]:
        return [
            (row[: at + 1], target)
            for row, wanted in zip(tokens.tolist(), targets.tolist(), strict=True)
            for at, target in enumerate(wanted)
            if target >= 0
        ]


def losses(mixture: Ngrams, count: int = 4) -> list[float]:
    found = []
    for seed in range(count):
        found.append(mixture.score(*texts(seed)))
        mixture.learn(*texts(seed))
    return found


@pytest.mark.parametrize("make", [ngrams, NgramsInPython])
def test_losses_are_those_of_the_oracle(make: type[NgramsInPython]) -> None:
    assert losses(make(4)) == pytest.approx(losses(Oracle(4)), rel=1e-12)


@needs_library
def test_the_library_and_python_agree_on_a_wide_vocabulary_and_where_room_ends() -> None:
    for most in (1 << 20, 400, 1):
        pair = ngrams(5000, most), NgramsInPython(5000, most)
        for seed in range(5):
            tokens, targets = texts(seed, vocabulary=5000)
            first, second = (mixture.score(tokens, targets) for mixture in pair)
            assert first == pytest.approx(second, rel=1e-12)
            for mixture in pair:
                mixture.learn(tokens, targets)


def test_nothing_is_known_before_anything_was_learnt() -> None:
    tokens, targets = texts(0)
    count = int((targets >= 0).sum())
    assert ngrams(4).score(tokens, targets) == pytest.approx(count * math.log(4), rel=1e-12)


def test_a_text_that_is_learnt_by_heart_costs_next_to_nothing() -> None:
    mixture, row = ngrams(100), np.arange(64, dtype=np.int32).reshape(1, -1)
    before = mixture.score(row, row + 1)
    for _ in range(20):
        mixture.learn(row, row + 1)
        after = mixture.score(row, row + 1)
    assert after < 0.05 * before


def test_contexts_end_where_a_row_begins() -> None:
    mixture = ngrams(4)
    rows = np.array([[0, 1], [2, 3]], dtype=np.int32)
    wanted = np.array([[1, 2], [3, 0]], dtype=np.int32)
    alone = NgramsInPython(4)
    mixture.learn(rows, wanted)
    for row in (0, 1):
        alone.learn(rows[row : row + 1], wanted[row : row + 1])
    assert mixture.score(rows, wanted) == pytest.approx(alone.score(rows, wanted), rel=1e-12)


@needs_library
def test_a_token_takes_microseconds() -> None:
    tokens, targets = texts(0, rows=100, width=200, vocabulary=64)
    mixture = ngrams(64)
    began = time.process_time()
    mixture.score(tokens, targets)
    mixture.learn(tokens, targets)
    assert time.process_time() - began < 50e-6 * tokens.size
