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

    operations: Sequence[Operation]
    # Groups of tensors that one of them writes to.
    written: frozenset[int]
    # For each operation by number, the groups of tensors that are not needed after it.
    endings: Mapping[int, Sequence[int]]


def plan_for(tape: Tape, wanted: Collection[int], before: int | None, since: int) -> Plan:
    """How to get these tensors as they are before an operation, from another one on."""
    grown = len(tape.operations), len(tape.copies), len(tape.opaque)
    key = frozenset(wanted), before, since, grown
    plans: dict[object, Plan] = tape.plans
    if key not in plans:
        while len(plans) >= MAX_PLANS:
            del plans[next(iter(plans))]
        operations = tape.needed_for(wanted, before, since)
        plans[key] = Plan(
            operations, written_groups(tape, operations), endings(tape, operations, wanted)
        )
    return plans[key]


def written_groups(tape: Tape, operations: Iterable[Operation]) -> frozenset[int]:
    """Groups of tensors that one of the operations writes to."""
    return frozenset(tape.groups[i] for op in operations if op.written for i in op.written)


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
    # We notice memory that was filled outside torch only after its first use.
    refilled = [source for number, source in copies.items() if number in tape.opaque]
    for number in (*wanted, *refilled):
        last_use.pop(groups[number], None)
    found: dict[int, list[int]] = {}
    for group, number in last_use.items():
        found.setdefault(number, []).append(group)
    return found
