"""Which tensors are computed from which, for many tensors in one walk over the operations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush

from lossleuth.tape.tape import Operation


def downstream(operations: Iterable[Operation], sources: Iterable[int]) -> set[int]:
    """These tensors, and everything that the operations compute from any of them."""
    found = set(sources)
    for operation in operations:
        if not found.isdisjoint(operation.inputs):
            found.update(_made(operation))
    return found


class Uses:
    """Which operations use each tensor."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._of: dict[int, list[int]] = {}
        for position, operation in enumerate(operations):
            for number in {*operation.inputs}:
                self._of.setdefault(number, []).append(position)

    def following(self, source: int) -> list[Operation]:
        """The operations that use a tensor or something computed from it, in order."""
        waiting = [*self._of.get(source, ())]
        seen, known = set(waiting), {source}
        found: list[Operation] = []
        while waiting:
            at = heappop(waiting)
            found.append(self._operations[at])
            for made in _made(found[-1]) - known:
                known.add(made)
                # An operation before this one has used it before it was computed from the source.
                for user in self._of.get(made, ()):
                    if user > at and user not in seen:
                        seen.add(user)
                        heappush(waiting, user)
        return found


def last_ones(operations: Sequence[Operation], tensors: Collection[int]) -> list[int]:
    """Those of the tensors that no other of them is computed from, in their order."""
    wanted = set(tensors)
    # Which of them each tensor leads to. Two are enough: one of the two is another one.
    leads_to: dict[int, frozenset[int]] = {}
    nothing: frozenset[int] = frozenset()
    for operation in reversed(operations):
        reached: set[int] = set()
        for made in _made(operation):
            reached |= leads_to.get(made, nothing)
            if made in wanted:
                reached.add(made)
        if not reached:
            continue
        for number in operation.inputs:
            known = leads_to.get(number, nothing)
            if len(known) < 2 and not reached <= known:
                leads_to[number] = frozenset(sorted(known | reached)[:2])
    return [i for i in tensors if not leads_to.get(i, nothing) - {i}]


def _made(operation: Operation) -> set[int]:
    return {*(o for o in operation.outputs if o is not None), *operation.written}
