"""Memory and views while operations are done again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.replay import one_pass
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.tape import Tape


def record(program: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tape, int, int]:
    capture = Capture()
    with capture:
        out = program(x)
        return capture.tape, capture.number_of(x), capture.number_of(out)


def buffered(length: int) -> Callable[[Tensor], Tensor]:
    def program(x: Tensor) -> Tensor:
        seen = torch.zeros(length, 4, dtype=x.dtype)
        mean = x[0]
        for t in range(length):
            mean = 0.9 * mean + x[t % 4]
            seen[t] = mean
        return (seen * seen).sum()

    return program


@pytest.mark.parametrize("gradients", [False, True])
def test_a_buffer_that_is_filled_bit_by_bit_takes_a_view_for_each_bit(
    gradients: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: list[int] = []
    dropped: list[int] = []
    again, drop = one_pass.Pass._view_again, one_pass.Pass._drop_views

    def counted_view(self: one_pass.Pass, number: int) -> Tensor:
        views.append(number)
        return again(self, number)

    def counted_drop(self: one_pass.Pass, root: int) -> None:
        dropped.extend(self._views.get(root, ()))
        drop(self, root)

    monkeypatch.setattr(one_pass.Pass, "_view_again", counted_view)
    monkeypatch.setattr(one_pass.Pass, "_drop_views", counted_drop)
    x = torch.randn(4, 4, requires_grad=True)
    tape, given, made = record(buffered(40), x)
    replay = Replay(tape, gradients=gradients)
    leaf = replay.leaf(x) if gradients else x.detach().double()
    out = replay.run([made], leaves={given: leaf})[made]
    expected = buffered(40)(x.detach().double())
    torch.testing.assert_close(out.detach(), expected)
    assert len(views) <= 2 * 40 and len(dropped) <= 2 * 40
    if gradients:
        (found,) = torch.autograd.grad(out, leaf)
        exact = x.detach().double().requires_grad_()
        (true,) = torch.autograd.grad(buffered(40)(exact), exact)
        torch.testing.assert_close(found, true)


def test_recorded_choices_survive_writes() -> None:
    def program(x: Tensor) -> Tensor:
        places = x.topk(2, -1).indices
        places.add_(1)
        places.add_(1)
        return places.sum()

    tape, _, made = record(program, torch.randn(4, 4))
    replay = Replay(tape, float64=False, gradients=False)
    first = replay.run([made])[made]
    assert torch.equal(replay.run([made])[made], first)


def test_what_autograd_has_saved_survives_every_write() -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 1
        total = (y * y).sum()
        for _ in range(3):
            with torch.no_grad():
                y.add_(1)
            total = total + (y * y).sum()
        return total

    x = torch.randn(4, 4, requires_grad=True)
    tape, given, made = record(program, x)
    replay = Replay(tape)
    leaf = replay.leaf(x)
    (found,) = torch.autograd.grad(replay.run([made], leaves={given: leaf})[made], leaf)
    true = sum(2 * (leaf.detach() + i) for i in range(4))
    torch.testing.assert_close(found, true)
