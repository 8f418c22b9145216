"""The scalars computed from evaluated batches, whether the program reads them or not.

A number is left over where it is handed on in another way than being read: to numpy, or kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lossleuth.tape.tape import Operation, Read, Tape

# Numbers of one evaluation that are examined. Picked by hand.
MAX_SCALARS = 512
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class MetricScalar:
    """A tensor of one number, what it was worth if it was read, and the batches it is of."""

    tensor: int
    # The operation before which it is looked at.
    at: int
    batches: tuple[int, ...]
    place: str | None
    # Whether the user's own code has read it.
    read: bool
    value: float | None
    # Which number of its batches it is, of those with the same place.
    ordinal: int


def metric_scalars(tape: Tape, logits: Mapping[int, int]) -> list[MetricScalar]:
    """All of them, in the order in which they were made; `logits` are batches by their scores."""
    reads: dict[int, list[Read]] = {}
    for read in tape.reads:
        if tape.layouts[read.tensor].dtype.is_floating_point:
            reads.setdefault(read.at, []).append(read)
    depends: dict[int, frozenset[int]] = {}
    memory: dict[int, frozenset[int]] = {}
    left: dict[int, tuple[Operation, frozenset[int]]] = {}
    found: list[tuple[int, int, frozenset[int], str | None, bool, float | None]] = []
    for operation in tape.operations:
        of = frozenset[int]().union(
            *(depends.get(i, _NONE) | memory.get(tape.groups[i], _NONE) for i in operation.inputs)
        )
        for read in reads.get(operation.number, ()) if of else ():
            left.pop(read.tensor, None)
            found.append((read.tensor, read.at, of, _told(read.place), read.by_user, read.value))
        for number in operation.outputs:
            if number is None:
                continue
            if number in logits:
                of = frozenset((logits[number],))
            if not of:
                continue
            depends[number] = of
            if number in operation.written:
                group = tape.groups[number]
                memory[group] = memory.get(group, _NONE) | of
            if _is_single(tape, number):
                for i in operation.inputs:
                    left.pop(i, None)
                left[number] = (operation, of)
    for number, (operation, of) in left.items():
        at = len(tape.operations)
        found.append((number, at, of, _told(operation.place), False, None))
    return _numbered(found[:MAX_SCALARS])


def _is_single(tape: Tape, number: int) -> bool:
    layout = tape.layouts[number]
    return layout.dtype.is_floating_point and math.prod(layout.shape) == 1


def _told(place: object) -> str | None:
    return None if place is None else str(place)


def _numbered(
    found: list[tuple[int, int, frozenset[int], str | None, bool, float | None]],
) -> list[MetricScalar]:
    seen: dict[tuple[frozenset[int], str | None], dict[int, int]] = {}
    scalars: dict[tuple[int, int], MetricScalar] = {}
    for tensor, at, of, place, read, value in found:
        known = seen.setdefault((of, place), {})
        # Printing a number takes several looks at it.
        if tensor in known:
            continue
        known[tensor] = len(known)
        batches = tuple(sorted(of))
        scalars[tensor, at] = MetricScalar(
            tensor=tensor,
            at=at,
            batches=batches,
            place=place,
            read=read,
            value=value,
            ordinal=known[tensor],
        )
    return list(scalars.values())
