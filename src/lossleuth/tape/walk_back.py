"""Walk back along a tape from a tensor to what it was made of, one tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lossleuth.tape.op_schemas import MOVES
from lossleuth.tape.tape import Operation


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


def through_moves(makers: Mapping[int, Operation]) -> Callable[[int], int | None]:
    """A source for the walk: what a view or a copy was taken from."""

    def source(number: int) -> int | None:
        maker = makers.get(number)
        return maker.inputs[0] if maker and maker.name in MOVES and maker.inputs else None

    return source
