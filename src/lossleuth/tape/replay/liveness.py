"""When a replay can free memory: after the last operation that uses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lossleuth.tape.tape import Operation, Tape


def endings(
    tape: Tape, operations: Sequence[Operation], wanted: Iterable[int]
) -> dict[int, list[int]]:
    """For each operation by number, the groups of tensors that are not needed after it."""
    last_use: dict[int, int] = {}
    for operation in operations:
        used = {*operation.inputs, *(o for o in operation.outputs if o is not None)}
        used |= {tape.copies[i] for i in used if i in tape.copies}
        for number in used:
            last_use[tape.groups[number]] = operation.number
    # We notice memory that was filled outside torch only after its first use.
    refilled = [source for number, source in tape.copies.items() if number in tape.opaque]
    # What is run again is given its inputs after its last operation.
    given = [number for again in tape.outside.values() for number in again.call.inputs]
    for number in (*wanted, *refilled, *given):
        last_use.pop(tape.groups[number], None)
    found: dict[int, list[int]] = {}
    for group, number in last_use.items():
        found.setdefault(number, []).append(group)
    return found
