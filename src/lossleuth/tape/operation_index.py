"""Which operations of a tape make each tensor and write to each piece of memory.

Without it, every question of what a tensor depends on would read the whole tape.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Indexed(Protocol):
    """What an operation tells of itself."""

    @property
    def outputs(self) -> tuple[int | None, ...]:
        """The tensors that it returns."""

    @property
    def written(self) -> tuple[int, ...]:
        """The tensors that it writes to."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """The tensors that it takes."""


@dataclass
class OperationIndex:
    """Positions of operations, in ascending order; it grows with the tape."""

    makers: dict[int, list[int]] = field(default_factory=dict)
    # By group: tensors that share memory.
    writers: dict[int, list[int]] = field(default_factory=dict)
    length: int = 0

    def extend(self, operations: Sequence[Indexed], groups: Mapping[int, int]) -> None:
        """Add the operations that came since."""
        makers, writers = self.makers, self.writers
        for position in range(self.length, len(operations)):
            operation = operations[position]
            for number in {*operation.outputs}:
                if number is not None:
                    makers.setdefault(number, []).append(position)
            if operation.written:
                for group in {groups[i] for i in operation.written}:
                    writers.setdefault(group, []).append(position)
        self.length = len(operations)


def needed_positions(
    index: OperationIndex,
    operations: Sequence[Indexed],
    groups: Mapping[int, int],
    sources: Callable[[Iterable[int]], Iterable[int]] | None,
    points: Mapping[int, Iterable[int]],
    since: int = 0,
    covered: Container[int] = (),
) -> list[int]:
    """Positions of the operations that tensors depend on, in ascending order.

    `points` gives tensors by the position before which they are wanted. In-place writes count: an
    operation that writes to the memory of a wanted tensor before that position is needed. `sources`
    adds to tensors what they were made of outside torch. Operations that are `covered` are left
    out, with what they alone depend on.
    """
    makers, writers = index.makers, index.writers
    waiting = sorted(points)
    at = waiting[-1] if waiting else 0
    pending = bytearray(at)
    # Positions go down, so that whatever was asked for before was asked for at a later position.
    asked: set[int] = set()
    asked_groups: set[int] = set()
    found: list[int] = []
    while True:
        following = pending.rfind(1, since, at) if at > since else -1
        if waiting and waiting[-1] > following:
            # A point comes before the operation at its position.
            at = waiting.pop()
            numbers: Iterable[int] = points[at]
        elif following < 0:
            break
        else:
            at = following
            if at in covered:
                continue
            found.append(at)
            numbers = operations[at].inputs
        for number in numbers if sources is None else sources(numbers):
            if number in asked:
                continue
            asked.add(number)
            _mark(pending, makers.get(number, ()), at)
            group = groups[number]
            if group not in asked_groups:
                asked_groups.add(group)
                _mark(pending, writers.get(group, ()), at)
    found.reverse()
    return found


def _mark(pending: bytearray, positions: Sequence[int], before: int) -> None:
    for position in positions:
        if position >= before:
            break
        pending[position] = 1
