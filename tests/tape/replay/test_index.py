"""Parts of a tape that stand for themselves."""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.replay.index import Index, without_graph
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.tape import Tape


def taped() -> tuple[Tape, list[int]]:
    """Three independent sums, one of them with something written in place."""
    capture = Capture()
    leaves = [torch.arange(4.0) + i for i in range(3)]
    with capture:
        made: list[Tensor] = []
        for leaf in leaves:
            scaled = leaf * 2
            made.append((scaled + 1).sum())
        made[1].add_(100)
        numbers = [capture.number_of(tensor) for tensor in made]
    return capture.tape, numbers


def test_only_what_is_needed_is_there_and_gives_the_same() -> None:
    tape, numbers = taped()
    index = Index(tape)
    for number, operations, value in zip(numbers, (3, 4, 3), (16.0, 124.0, 32.0), strict=True):
        part = index.excerpt([number])
        assert len(part.operations) == operations
        assert [op.number for op in part.operations] == list(range(operations))
        assert float(Replay(part).run([number])[number]) == value


def test_a_number_as_it_was_before_it_was_changed() -> None:
    tape, numbers = taped()
    change = next(op.number for op in tape.operations if op.name == "add_")
    part = Index(tape).excerpt([numbers[1]], change)
    assert float(Replay(part).run([numbers[1]])[numbers[1]]) == 24.0


def test_what_is_given_is_not_made_again() -> None:
    tape, numbers = taped()
    index = Index(tape)
    maker = index.maker(numbers[0])
    assert maker is not None and maker.name == "sum"
    (given,) = maker.inputs
    part = index.excerpt([numbers[0]], stops=[given])
    assert [op.name for op in part.operations] == ["sum"]
    found = Replay(part).run([numbers[0]], leaves={given: torch.ones(4, dtype=torch.float64)})
    assert float(found[numbers[0]]) == 4.0


def test_without_a_graph_nothing_is_alive() -> None:
    capture = Capture()
    weight = torch.ones(2, requires_grad=True)
    with capture:
        number = capture.number_of((weight * 2).sum())
    part = Index(capture.tape).excerpt([number])
    assert any(any(op.requires_grad) for op in part.operations)
    assert not any(any(op.requires_grad) for op in without_graph(part).operations)
