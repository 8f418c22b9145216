"""Operations in their recorded types."""

from __future__ import annotations

import torch
from steps import recorded_step

from lossleuth.tape.replay.recorded_types import done_as_recorded
from lossleuth.tape.tape import Operation
from lossleuth.tape.window import Window


def product(window: Window) -> Operation:
    """The first product of matrices on the tape."""
    return next(op for op in window.tape.operations if op.name in ("addmm", "mm"))


def test_it_rounds_as_the_program_did_and_gives_what_the_replay_uses() -> None:
    window = recorded_step()
    operation = product(window)
    sizes = [window.tape.layouts[i].shape for i in operation.inputs]
    wide = tuple(torch.randn(size, dtype=torch.float64) for size in sizes)
    made = done_as_recorded(window.tape, operation, wide, {}, lambda t: t.double())
    expected = operation.kind(*(t.float() for t in wide)).double()
    assert made.dtype == torch.float64
    assert torch.equal(made, expected)
    assert not torch.equal(made, operation.kind(*wide))
