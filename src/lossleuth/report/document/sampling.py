"""Reduce a long series to fewer points; minima, maxima and gaps are kept."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 400


class Sampled(NamedTuple):
    """The points that are kept, and whether there were more."""

    xs: NDArray[np.float64]
    ys: NDArray[np.float64]
    reduced: bool


def sampled(
    xs: NDArray[np.float64], ys: NDArray[np.float64], max_points: int = MAX_POINTS
) -> Sampled:
    """At most `max_points` points: of each bin the minimum, the maximum, and a gap if it has one.

    >>> found = sampled(np.arange(1000.0), np.where(np.arange(1000) == 503, 9.0, 0.0), 100)
    >>> len(found.xs) <= 100, float(found.ys.max())
    (True, 9.0)
    """
    count = len(ys)
    if count <= max_points:
        return Sampled(xs, ys, reduced=False)
    # Up to three points of each bin, and the two ends of the series.
    edges = np.linspace(0, count, max(1, max_points // 4) + 1).astype(np.int64)
    chosen: set[int] = {0, count - 1} if max_points >= 8 else set()
    for begin, end in itertools.pairwise(edges):
        chosen.update(_extremes_and_gap(ys, int(begin), int(end)))
    order = np.array(sorted(chosen)[:max_points], dtype=np.int64)
    return Sampled(xs[order], ys[order], reduced=True)


def _extremes_and_gap(ys: NDArray[np.float64], begin: int, end: int) -> set[int]:
    values = ys[begin:end]
    if not len(values):
        return set()
    finite = np.isfinite(values)
    indices: set[int] = set()
    if finite.any():
        indices.add(begin + int(np.argmin(np.where(finite, values, np.inf))))
        indices.add(begin + int(np.argmax(np.where(finite, values, -np.inf))))
    if not finite.all():
        indices.add(begin + int(np.argmin(finite)))
    return indices


def bins(count: int, max_bins: int) -> list[slice]:
    """Divide `count` steps into at most `max_bins` bins of about one size.

    >>> bins(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    columns = min(count, max_bins)
    edges = [count * i // columns for i in range(columns + 1)] if columns else [0]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
