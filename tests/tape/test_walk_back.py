"""Walking back along a tape."""

from __future__ import annotations

from itertools import islice

import pytest

from lossleuth.tape.walk_back import origin, walk_back


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({}, [3]),
        ({3: 2, 2: 1}, [3, 2, 1]),
        # An in-place copy is its own source.
        ({3: 3}, [3]),
        ({3: 2, 2: 2}, [3, 2]),
        # x.add_(x * 2): two tensors that are made of each other.
        ({3: 2, 2: 3}, [3, 2]),
    ],
)
def test_a_walk_meets_each_tensor_once(sources: dict[int, int], expected: list[int]) -> None:
    # Not more than ten, so that a walk without an end fails here and does not hang.
    assert list(islice(walk_back(3, sources.get), 10)) == expected
    assert origin(3, sources.get) == expected[-1]
