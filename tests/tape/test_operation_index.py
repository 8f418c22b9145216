"""What depends on what, without reading the whole tape."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import overload

import pytest
import torch

from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.operation_index import OperationIndex, needed_positions
from lossleuth.tape.tape import FunctionCall, Operation, Tape


def taped(length: int = 12) -> Tape:
    """Chains of operations with views, a buffer that is filled in place, and one written twice."""
    capture = Capture()
    with capture:
        x, buffer = torch.arange(8.0).reshape(2, 4), torch.zeros(2, length)
        for i in range(length):
            y = x.t().reshape(-1)[: i % 3 + 1] * 2
            buffer[:, i] = y.sum()
            x = x + buffer[:, i : i + 1]
            if i % 4 == 3:
                x.view(-1).mul_(0.5)
        buffer.add_(1)
    return capture.tape


def with_originals(tape: Tape, numbers: Iterable[int]) -> set[int]:
    """Tensors, what they are copies of or were made of outside torch, and so on."""
    found = set(numbers)
    while True:
        copied = {tape.copies[i] for i in found if i in tape.copies}
        calls = [tape.outside[tape.groups[i]].call for i in found if tape.groups[i] in tape.outside]
        more = copied.union(*(call.inputs for call in calls))
        if more <= found:
            return found
        found |= more


def read_through(
    tape: Tape, wanted: Iterable[int], before: int | None = None, since: int = 0
) -> list[int]:
    """The same by reading every operation: slow and plain."""
    needed = with_originals(tape, wanted)
    groups = {tape.groups[i] for i in needed}
    kept: list[int] = []
    for operation in reversed(tape.operations[since:before]):
        makes = any(i in needed for i in operation.outputs if i is not None)
        if makes or any(tape.groups[i] in groups for i in operation.written):
            kept.append(operation.number)
            inputs = with_originals(tape, operation.inputs)
            needed.update(inputs)
            groups.update(tape.groups[i] for i in inputs)
    return kept[::-1]


@pytest.mark.parametrize("with_outside", [False, True])
@pytest.mark.parametrize("with_copies", [False, True])
def test_every_question_is_answered_as_by_reading_the_whole_tape(
    with_copies: bool, with_outside: bool
) -> None:
    tape, chance = taped(), random.Random(0)
    numbers = list(tape.layouts)
    if with_copies:
        tape.copies = {i: chance.choice(numbers) for i in chance.sample(numbers, 6)}
    for result in chance.sample(numbers, 4 if with_outside else 0):
        inputs = (chance.choice(numbers), chance.choice(numbers))
        call = FunctionCall("Outside", None, None, (), inputs, 0, outputs={0: result})
        tape.link_outside(call)
    sizes = set()
    for _ in range(300):
        wanted = chance.sample(numbers, chance.choice((1, 2, 5)))
        before = chance.choice((None, chance.randrange(len(tape.operations) + 1)))
        since = chance.choice((0, 0, chance.randrange(len(tape.operations) + 1)))
        found = [op.number for op in tape.needed_for(wanted, before, since)]
        assert found == read_through(tape, wanted, before, since)
        sizes.add(len(found))
    assert len(sizes) > 20


class Counted(Sequence[Operation]):
    """Operations, and how many of them were looked at."""

    def __init__(self, operations: list[Operation]) -> None:
        self.operations, self.looks = operations, 0

    def __len__(self) -> int:
        return len(self.operations)

    @overload
    def __getitem__(self, at: int) -> Operation: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Operation]: ...

    def __getitem__(self, at: int | slice) -> Operation | Sequence[Operation]:
        self.looks += 1
        return self.operations[at]


def test_only_what_is_needed_is_looked_at() -> None:
    capture = Capture()
    with capture:
        parts = [(torch.ones(3) * i + 1).sum() for i in range(50)]
        number = capture.number_of(parts[20])
    tape, operations = capture.tape, Counted(capture.tape.operations)
    points = {len(operations): [number]}
    found = needed_positions(tape.index(), operations, tape.groups, None, points)
    assert len(found) == 4 == operations.looks
    assert len(operations) == 200


def test_several_points_are_answered_in_one_walk() -> None:
    tape, chance = taped(), random.Random(1)
    for _ in range(100):
        points = {
            chance.randrange(1, len(tape.operations)): chance.sample(list(tape.layouts), 2)
            for _ in range(3)
        }
        each = [read_through(tape, wanted, at) for at, wanted in points.items()]
        together = [op.number for op in tape.needed_at(points)]
        assert together == sorted({number for found in each for number in found})


def test_what_is_covered_is_not_walked_again() -> None:
    tape, covered = taped(), set[int]()
    ends = [op.outputs[0] for op in tape.operations if op.name == "sum"]
    found: list[int] = []
    for end in ends:
        assert end is not None
        found += [op.number for op in tape.newly_needed([end], len(tape.operations), covered)]
    assert len(found) == len(set(found))
    assert sorted(found) == read_through(tape, [end for end in ends if end is not None])


def test_the_index_grows_with_the_tape() -> None:
    tape, index = taped(), OperationIndex()
    half = len(tape.operations) // 2
    index.extend(tape.operations[:half], tape.groups)
    index.extend(tape.operations, tape.groups)
    whole = OperationIndex()
    whole.extend(tape.operations, tape.groups)
    assert index == whole
    assert any(len(writers) > 2 for writers in whole.writers.values())
