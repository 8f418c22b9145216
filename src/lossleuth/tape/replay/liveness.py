"""What a replay has to do: which operations, and when it can free memory.

The same question is asked many times for one step, so the latest answers are kept with the tape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lossleuth.tape.tape import Operation, Tape

# Answers that are kept with a tape. Picked by hand.
MAX_PLANS = 8


@dataclass(frozen=True)
class Plan:
    """The operations that some tensors depend on."""

    wanted: frozenset[int]
    # From which operation on, and before which.
    span: tuple[int, int | None]
    operations: Sequence[Operation]
    # Groups of tensors that one of them writes to.
    written: frozenset[int]
    # For each operation by number, the groups of tensors that are not needed after it.
    endings: Mapping[int, Sequence[int]]
    # The same for points between operations, by the number of the operation that comes next.
    endings_at_points: Mapping[int, Sequence[int]]
    # Whether results of choices, and of random operations, are taken from the recording.
    has_choices: bool
    has_random: bool

    @property
    def last(self) -> int:
        """The number of the last operation; -1 if there is none."""
        return self.operations[-1].number if self.operations else -1


def plan_for(tape: Tape, wanted: Collection[int], before: int | None, since: int) -> Plan:
    """How to get these tensors as they are before an operation, from another one on."""
    links = frozenset(tape.copies.items()), frozenset(tape.outside)
    key = frozenset(wanted), before, since, len(tape.operations), frozenset(tape.opaque), links
    plans: dict[object, Plan] = tape.plans
    if key not in plans:
        while len(plans) >= MAX_PLANS:
            del plans[next(iter(plans))]
        operations = tape.needed_for(wanted, before, since)
        ends = endings(tape, operations, wanted)
        plans[key] = _plan(tape, key[0], (since, before), operations, ends, {})
    return plans[key]


def plan_at(tape: Tape, points: Mapping[int, Collection[int]]) -> Plan:
    """How to see tensors as they are before some operations, in one replay."""
    operations = tape.needed_at(points)
    ends = endings(tape, operations, ())
    last_use = {group: at for at, groups in ends.items() for group in groups}
    at_points: dict[int, list[int]] = {}
    seen = _held(tape)
    for point in sorted(points, reverse=True):
        for group in {tape.groups[i] for i in points[point]} - seen:
            seen.add(group)
            if last_use.get(group, -1) < point:
                at_points.setdefault(point, []).append(group)
                last_use.pop(group, None)
    kept: dict[int, list[int]] = {}
    for group, at in last_use.items():
        kept.setdefault(at, []).append(group)
    wanted = frozenset(i for numbers in points.values() for i in numbers)
    return _plan(tape, wanted, (0, max(points, default=0)), operations, kept, at_points)


def _plan(
    tape: Tape,
    wanted: frozenset[int],
    span: tuple[int, int | None],
    operations: Sequence[Operation],
    ends: Mapping[int, Sequence[int]],
    at_points: Mapping[int, Sequence[int]],
) -> Plan:
    recorded = [op for op in operations if op.recorded_results is not None]
    return Plan(
        wanted,
        span,
        operations,
        written_groups(tape, operations),
        ends,
        at_points,
        has_choices=any(not op.traits.is_random for op in recorded),
        has_random=any(op.traits.is_random for op in operations),
    )


def written_groups(tape: Tape, operations: Iterable[Operation]) -> frozenset[int]:
    """Groups of tensors that one of the operations writes to."""
    return frozenset(tape.groups[i] for op in operations if op.written for i in op.written)


def _held(tape: Tape) -> set[int]:
    """Groups of tensors that may be needed after the last operation that uses them."""
    # We notice memory that was filled outside torch only after its first use.
    refilled = {source for number, source in tape.copies.items() if number in tape.opaque}
    # What is run again is given its inputs after its last operation.
    given = {number for again in tape.outside.values() for number in again.call.inputs}
    return {tape.groups[number] for number in refilled | given}


def endings(
    tape: Tape, operations: Sequence[Operation], wanted: Iterable[int]
) -> dict[int, list[int]]:
    """For each operation by number, the groups of tensors that are not needed after it."""
    last_use: dict[int, int] = {}
    groups, copies = tape.groups, tape.copies
    for operation in operations:
        at = operation.number
        for number in operation.inputs:
            last_use[groups[number]] = at
            if number in copies:
                last_use[groups[copies[number]]] = at
        for made in operation.outputs:
            if made is not None:
                last_use[groups[made]] = at
                if made in copies:
                    last_use[groups[copies[made]]] = at
    for group in {groups[number] for number in wanted} | _held(tape):
        last_use.pop(group, None)
    found: dict[int, list[int]] = {}
    for group, number in last_use.items():
        found.setdefault(number, []).append(group)
    return found
