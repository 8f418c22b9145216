"""Entropies against a slow count."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.reference.train.data import Span
from lossleuth.reference.train.floors import loss_floors


@given(st.lists(st.integers(0, 5), min_size=3, max_size=60), st.integers(1, 59))
def test_floors_are_the_mean_surprise_of_counting_predictors(tokens: list[int], cut: int) -> None:
    array = np.array(tokens, dtype=np.uint16)
    cut = min(cut, len(tokens) - 2)
    spans = [Span(0, cut), Span(cut, len(tokens) - 1)]
    pairs = [(tokens[i], tokens[i + 1]) for i in range(len(tokens) - 1)]
    after = Counter(b for _, b in pairs)
    before = Counter(a for a, _ in pairs)
    both = Counter(pairs)
    unigram = -sum(math.log(after[b] / len(pairs)) for _, b in pairs) / len(pairs)
    bigram = -sum(math.log(both[a, b] / before[a]) for a, b in pairs) / len(pairs)

    floors = loss_floors(array, spans, vocabulary=6)

    assert math.isclose(floors.uniform, math.log(6))
    assert math.isclose(floors.unigram, unigram, abs_tol=1e-12)
    assert math.isclose(floors.bigram, bigram, abs_tol=1e-12)


def test_a_pair_across_documents_does_not_count() -> None:
    tokens = np.array([1, 2, 1, 2, 3, 2, 3], dtype=np.uint16)
    inside = loss_floors(tokens, [Span(0, 3), Span(4, 6)], vocabulary=4)
    across = loss_floors(tokens, [Span(0, 6)], vocabulary=4)
    assert inside.bigram < across.bigram
