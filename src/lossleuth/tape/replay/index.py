"""Cut out of a tape what some tensors depend on.

A long stretch, such as an evaluation of many batches, is looked at batch by batch; each look at the
whole would cost as much as all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import replace

from lossleuth.tape.tape import Operation, Tape


class Index:
    """Which operations make each tensor and write to each piece of memory."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        index = tape.index()
        self._makers, self._writers = index.makers, index.writers

    def maker(self, number: int) -> Operation | None:
        """The operation that made a tensor first."""
        found = self._makers.get(number)
        return None if found is None else self.tape.operations[found[0]]

    def excerpt(
        self, wanted: Iterable[int], before: int | None = None, stops: Collection[int] = ()
    ) -> Tape:
        """The operations needed for these tensors as they are before an operation, renumbered.

        Tensors among `stops` are taken as given: what they were made of is left out.
        """
        tape = self.tape
        if not stops:
            return _renumbered(tape, [op.number for op in tape.needed_for(wanted, before)])
        end = len(tape.operations) if before is None else before
        kept: set[int] = set()
        # Up to which operation each tensor has been followed back.
        seen: dict[int, int] = {}
        waiting = [(number, end) for number in tape.with_sources(wanted)]
        while waiting:
            number, bound = waiting.pop()
            if seen.get(number, -1) >= bound:
                continue
            seen[number] = bound
            found = self._up_to(number, bound, is_given=number in stops)
            for operation in found:
                if operation.number not in kept:
                    kept.add(operation.number)
                waiting += [(i, operation.number) for i in tape.with_sources(operation.inputs)]
        return _renumbered(tape, sorted(kept))

    def _up_to(self, number: int, bound: int, *, is_given: bool) -> list[Operation]:
        tape = self.tape
        makers = self._makers.get(number, [])
        writers = self._writers.get(tape.groups[number], [])
        if is_given:
            # Only what is done to it after it was made.
            since = makers[0] if makers else -1
            chosen = [i for i in writers[: bisect_left(writers, bound)] if i > since]
        else:
            chosen = [*makers[: bisect_left(makers, bound)]]
            chosen += writers[: bisect_left(writers, bound)]
        return [tape.operations[i] for i in chosen]


def without_graph(tape: Tape) -> Tape:
    """The same tape with nothing in it that requires a gradient."""
    dead = [replace(op, requires_grad=(False,) * len(op.requires_grad)) for op in tape.operations]
    return replace(tape, operations=dead)


def _renumbered(tape: Tape, kept: list[int]) -> Tape:
    operations = [replace(tape.operations[old], number=new) for new, old in enumerate(kept)]
    opaque = {number: bisect_left(kept, at) for number, at in tape.opaque.items()}
    outside = {group: a._replace(at=bisect_left(kept, a.at)) for group, a in tape.outside.items()}
    return replace(tape, operations=operations, opaque=opaque, outside=outside, reads=[])
