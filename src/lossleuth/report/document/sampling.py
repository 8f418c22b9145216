"""Fewer points of a long series, without losing what stands out: minima and maxima are kept."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_POINTS = 400


class Sampled(NamedTuple):
    """The points that are left, and whether there were more."""

    xs: NDArray[np.float64]
    ys: NDArray[np.float64]
    reduced: bool


def sampled(xs: NDArray[np.float64], ys: NDArray[np.float64], most: int = MOST_POINTS) -> Sampled:
    """At most so many points; of each bunch the lowest, the highest, and a gap where one was.

    >>> found = sampled(np.arange(1000.0), np.where(np.arange(1000) == 503, 9.0, 0.0), 100)
    >>> len(found.xs) <= 100, float(found.ys.max())
    (True, 9.0)
    """
    count = len(ys)
    if count <= most:
        return Sampled(xs, ys, reduced=False)
    # Up to four of each bunch, in their order: the first, the lowest, the highest, a gap.
    edges = np.linspace(0, count, max(1, most // 4) + 1).astype(np.int64)
    chosen: set[int] = {0, count - 1} if most >= 8 else set()
    for begin, end in itertools.pairwise(edges):
        chosen.update(_telling(ys, int(begin), int(end)))
    order = np.array(sorted(chosen)[:most], dtype=np.int64)
    return Sampled(xs[order], ys[order], reduced=True)


def _telling(ys: NDArray[np.float64], begin: int, end: int) -> set[int]:
    bunch = ys[begin:end]
    if not len(bunch):
        return set()
    finite = np.isfinite(bunch)
    found: set[int] = set()
    if finite.any():
        found.add(begin + int(np.argmin(np.where(finite, bunch, np.inf))))
        found.add(begin + int(np.argmax(np.where(finite, bunch, -np.inf))))
    if not finite.all():
        found.add(begin + int(np.argmin(finite)))
    return found


def bunches(count: int, most: int) -> list[slice]:
    """So many steps in at most so many columns.

    >>> bunches(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    columns = min(count, most)
    edges = [count * i // columns for i in range(columns + 1)] if columns else [0]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
