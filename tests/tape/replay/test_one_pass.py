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
    again = one_pass.Pass._view_again
    monkeypatch.setattr(
        one_pass.Pass, "_view_again", lambda self, i: views.append(i) or again(self, i)
    )
    x = torch.randn(4, 4, requires_grad=True)
    tape, given, made = record(buffered(40), x)
    replay = Replay(tape, gradients=gradients)
    leaf = replay.leaf(x) if gradients else x.detach().double()
    out = replay.run([made], leaves={given: leaf})[made]
    expected = buffered(40)(x.detach().double())
    torch.testing.assert_close(out.detach(), expected)
    assert len(views) <= 2 * 40
    if gradients:
        (found,) = torch.autograd.grad(out, leaf)
        exact = x.detach().double().requires_grad_()
        (true,) = torch.autograd.grad(buffered(40)(exact), exact)
        torch.testing.assert_close(found, true)


def test_recorded_values_survive_writes_without_gradients() -> None:
    def program(x: Tensor) -> Tensor:
        noise = torch.rand_like(x)
        noise.mul_(2)
        noise.add_(x)
        return noise.sum()

    tape, _, made = record(program, torch.randn(4, 4))
    replay = Replay(tape, float64=False, gradients=False)
    first = replay.run([made])[made]
    assert torch.equal(replay.run([made])[made], first)
