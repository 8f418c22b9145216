"""Walk back along a tape from a tensor to what it was made of, one tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator


def walk_back(number: int, source: Callable[[int], int | None]) -> Iterator[int]:
    """The tensor, its source, the source of that and so on, until `source` gives None.

    An in-place operation on a leaf takes the very tensor that it makes, so sources may form a
    circle: the walk ends before it meets a tensor for the second time.

    >>> list(walk_back(3, {3: 2, 2: 1, 1: 2}.get))
    [3, 2, 1]
    """
    visited: set[int] = set()
    here: int | None = number
    while here is not None and here not in visited:
        visited.add(here)
        yield here
        here = source(here)


def origin(number: int, source: Callable[[int], int | None]) -> int:
    """Where the walk back ends.

    >>> origin(3, {3: 2, 2: 1}.get)
    1
    """
    *_, last = walk_back(number, source)
    return last
