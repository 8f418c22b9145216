"""What is trained: the same parameters, by optimizers of one kind.

A script may train several things one after another. Which of them a step belongs to is a small
number, noted at every update; phases are made of these numbers when the run is over. An optimizer
that is made anew at every step or epoch, at the same place and with the same settings, for
parameters that were trained before, goes on with what the one before it did.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from lossleuth.places import is_library

BY_HAND = "by hand"
# Calls of the user's code that lead to an optimizer, of which so many are told apart.
MOST_CALLS = 32


@dataclass
class Trainee:
    """Parameters by their rows, and the kind of the optimizers that update them."""

    kind: int
    rows: set[int]


class Trainees:
    """Numbers them in the order in which they are first updated."""

    def __init__(self) -> None:
        self.known: list[Trainee] = []
        self._kinds: dict[Hashable, int] = {}
        # Of optimizers by their identity: their kind, and what they last updated with its number.
        self._made: dict[int, int] = {}
        self._latest: dict[int, tuple[object, int]] = {}

    def made(self, optimizer: Any, calls: Hashable = ()) -> bool:
        """The program has made an optimizer; whether there was none of its kind before."""
        # Whatever had this identity before is gone.
        self._latest.pop(id(optimizer), None)
        before = len(self._kinds)
        self._made[id(optimizer)] = self._kind((_signature(optimizer), calls))
        return len(self._kinds) > before

    def of(self, optimizer: Any, rows: Any) -> int:
        """The number of what it updates; `rows` has the numbers of its parameters."""
        latest = self._latest.get(id(optimizer))
        if latest is not None and latest[0] is rows:
            return latest[1]
        number = self._number(optimizer, set(rows.rows.tolist()), latest)
        self._latest[id(optimizer)] = (rows, number)
        return number

    def number_of(self, optimizer: Any) -> int | None:
        """The number of what it last updated, if anything."""
        latest = self._latest.get(id(optimizer))
        return None if latest is None else latest[1]

    def _number(self, optimizer: Any, rows: set[int], latest: tuple[object, int] | None) -> int:
        if latest is not None:
            # The same optimizer goes on, with other parameters perhaps.
            self.known[latest[1]].rows |= rows
            return latest[1]
        kind = self._made.get(id(optimizer))
        if kind is None:
            kind = self._kind(BY_HAND if optimizer is None else _signature(optimizer))
        for number, trainee in enumerate(self.known):
            if trainee.kind == kind and trainee.rows & rows:
                trainee.rows |= rows
                return number
        self.known.append(Trainee(kind, rows))
        return len(self.known) - 1

    def _kind(self, key: Hashable) -> int:
        return self._kinds.setdefault(key, len(self._kinds))


def calls_of_user(frame: FrameType | None) -> tuple[tuple[str, int], ...]:
    """The user's calls that lead here, the innermost first: the same in every turn of a loop."""
    found: list[tuple[str, int]] = []
    while frame is not None and len(found) < MOST_CALLS:
        if not is_library(frame.f_code.co_filename):
            found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def _signature(optimizer: Any) -> Hashable:
    """Its class and settings, without the rate, which a schedule may have moved."""
    defaults: Iterable[tuple[str, Any]] = getattr(optimizer, "defaults", {}).items()
    settings = tuple(sorted((name, repr(value)) for name, value in defaults if name != "lr"))
    return type(optimizer).__module__, type(optimizer).__qualname__, settings
