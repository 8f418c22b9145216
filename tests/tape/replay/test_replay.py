"""Doing operations again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.replay import one_pass
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.tape import Operation, Tape


def record(program: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tape, int, int]:
    capture = Capture()
    with capture:
        out = program(x)
    given, made = capture.known(x), capture.known(out)
    assert given is not None
    assert made is not None
    return capture.tape, given, made


def in_place_on_views(x: Tensor) -> Tensor:
    y = x * 1
    left, right = y[:, :2], y[:, 2:]
    left.mul_(2)
    y[0] += right[0].sum()
    right.copy_(left.exp())
    return (y * y).sum()


def discrete(x: Tensor) -> Tensor:
    values, _ = x.topk(2, -1)
    best = x.max(-1)
    ordered, _ = x.sort(-1, descending=True)
    picked = x[x > 0]
    return values.sum() + best.values.prod() + ordered[:, 0].sin().sum() + picked.square().sum()


def into_out(x: Tensor) -> Tensor:
    buffer = torch.zeros_like(x)
    torch.mul(x.detach(), 3, out=buffer)
    return (buffer * x).sum()


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "in place on views": in_place_on_views,
    "discrete": discrete,
    "out": into_out,
    "dropout": lambda x: F.dropout(x, 0.5).square().sum(),
    "noise": lambda x: (x + torch.randn_like(x)).square().sum(),
    "attention": lambda x: F.scaled_dot_product_attention(
        *(x.view(1, 1, 4, 4) * s for s in (1, 2, 3)), is_causal=True
    ).sum(),
    "norm": lambda x: F.layer_norm(x, (4,)).pow(3).sum(),
    "half": lambda x: torch.softmax(x.bfloat16(), -1, dtype=torch.float32).square().sum(),
    "complex": lambda x: torch.view_as_real(torch.view_as_complex(x.view(4, 2, 2)) * 2).sum(),
    "sort of everything": lambda x: torch.cat([x.t().flip(0), x.roll(1, 0)]).cumsum(0).std(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_replay_in_the_recorded_types_gives_the_same_value_and_gradient(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 4, requires_grad=True)
    tape, given, made = record(PROGRAMS[name], x)
    torch.manual_seed(0)
    torch.randn(4, 4)
    expected = PROGRAMS[name](x)
    (true,) = torch.autograd.grad(expected, x)
    leaf = x.detach().clone().requires_grad_()
    found = Replay(tape, float64=False).run([made], leaves={given: leaf})[made]
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found, leaf)
    torch.testing.assert_close(gradient, true)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("dropout", "noise", "half")])
def test_a_wide_replay_is_the_program_in_float64(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 4, requires_grad=True)
    tape, given, made = record(PROGRAMS[name], x)
    wide = x.detach().double().requires_grad_()
    expected = PROGRAMS[name](wide)
    (true,) = torch.autograd.grad(expected, wide)
    leaf = x.detach().double().requires_grad_()
    found = Replay(tape).run([made], leaves={given: leaf})[made]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(found, leaf)
    torch.testing.assert_close(gradient, true, rtol=1e-12, atol=1e-12)


def cuts_three_ways(x: Tensor) -> Tensor:
    with torch.no_grad():
        a = x * 2
    return (a * x + x.detach() * x + (x * 3).data * x).sum()


def test_cuts_are_kept_or_opened() -> None:
    x = torch.tensor([2.0], requires_grad=True)
    tape, given, made = record(cuts_three_ways, x)
    slopes = {}
    for cuts in Cuts:
        leaf = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
        out = Replay(tape, cuts=cuts).run([made], leaves={given: leaf})[made]
        slopes[cuts] = torch.autograd.grad(out, leaf)[0].item()
    # 2x² + x² + 3x²: half of the slope passes where the cuts are kept.
    assert slopes == {Cuts.KEPT: 12.0, Cuts.OPENED: 24.0}


def test_choices_are_made_anew_on_demand() -> None:
    tape, given, made = record(
        lambda x: x.gather(0, x.argmax()[None]) * 10, torch.tensor([1.0, 5.0, 2.0])
    )
    other = torch.tensor([9.0, 5.0, 2.0], dtype=torch.float64)
    kept = Replay(tape, gradients=False).run([made], leaves={given: other})[made]
    anew = Replay(tape, gradients=False, replay_choices=False).run([made], leaves={given: other})[
        made
    ]
    assert (kept.item(), anew.item()) == (50, 90)


def test_an_input_can_be_changed_where_it_is_used() -> None:
    tape, given, made = record(lambda x: x.sin() + x.cos(), torch.tensor([1.0]))
    sine = next(op.number for op in tape.operations if op.name == "sin")

    def change(number: int, there: Tensor) -> Tensor:
        return there * 0 if number == sine else there

    found = Replay(tape, gradients=False).run([made], inputs={given: change})[made]
    assert found.item() == pytest.approx(torch.tensor(1.0).double().cos().item())


def test_the_state_of_the_program_is_left_alone() -> None:
    tape, _, made = record(lambda x: F.dropout(x, 0.5).sum(), torch.ones(8))
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with torch.no_grad(), torch.autocast("cpu"):
        Replay(tape).run([made])
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_default_dtype() is torch.float32


def test_a_tensor_that_is_handed_on_as_it_is_is_no_view_of_itself() -> None:
    def program(x: Tensor) -> Tensor:
        made = torch.ops.aten.lift_fresh(x * 1)
        made[0] = 7.0
        return made.sum()

    tape, _, made = record(program, torch.ones(3))
    assert float(Replay(tape).run([made])[made]) == 9.0


@pytest.mark.parametrize("float64", [True, False])
def test_a_leaf_that_the_program_writes_to_is_left_as_it_is(float64: bool) -> None:
    def program(x: Tensor) -> Tensor:
        with torch.no_grad():
            x.mul_(2)
        return x.square().sum()

    x = torch.ones(3, requires_grad=True)
    tape, given, made = record(program, x)
    replay = Replay(tape, float64=float64)
    leaf = replay.leaf(tape.value(given))
    assert leaf.is_leaf and leaf.requires_grad
    assert replay.run([made], leaves={given: leaf})[made].item() == 12
    assert tape.value(given).tolist() == leaf.tolist() == [1, 1, 1]
    assert x.tolist() == [2, 2, 2]


def test_a_leaf_from_inference_mode_can_be_differentiated() -> None:
    with torch.inference_mode():
        made = torch.ones(3)
    leaf = Replay(Tape(), float64=False).leaf(made)
    assert torch.autograd.grad(leaf.square().sum(), leaf)[0].tolist() == [2, 2, 2]


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all operations that replays carry out."""
    names: list[str] = []
    attempt = one_pass.Pass.attempt

    def counted(self: Any, operation: Operation) -> None:
        names.append(operation.name)
        attempt(self, operation)

    monkeypatch.setattr(one_pass.Pass, "attempt", counted)
    return names


def test_one_replay_shows_tensors_at_many_points(done: list[str]) -> None:
    capture = Capture()
    points: dict[int, list[int]] = {}
    expected: dict[int, list[Tensor]] = {}
    with capture:
        x = torch.arange(6.0).reshape(2, 3)
        total = torch.zeros(2, 3)
        for i in range(10):
            y = x * i
            total.add_(y)
            at = len(capture.tape.operations)
            points[at] = [capture.number_of(y), capture.number_of(total)]
            expected[at] = [y.clone(), total.clone()]
    seen: dict[int, list[Tensor]] = {}

    def look(at: int, values: dict[int, Tensor]) -> None:
        seen[at] = [values[number].clone() for number in points[at]]

    replay = Replay(capture.tape, float64=False, gradients=False)
    replay.at_points(points, look)
    assert list(seen) == sorted(points)
    for at, values in expected.items():
        assert all(torch.equal(a, b) for a, b in zip(seen[at], values, strict=True))
    # What they start from, ten products and ten sums.
    assert len(done) == 3 + 20


def test_what_was_replayed_is_not_replayed_again_while_the_tape_is_settled(
    done: list[str],
) -> None:
    tape, _, made = record(lambda x: (x.exp() * 2).sum(), torch.randn(4, 4))
    with tape.settled():
        first = Replay(tape, gradients=False).run([made])[made]
        once = len(done)
        # Nothing is dropped and nothing is chosen: all the same.
        for same in (
            Replay(tape, gradients=False),
            Replay(tape, gradients=False, dropout=False, replay_choices=False),
        ):
            assert torch.equal(same.run([made], before=len(tape.operations))[made], first)
        assert len(done) == once == 3
        Replay(tape, gradients=False, float64=False).run([made])
        Replay(tape).run([made])
        assert len(done) == 3 * once
    assert not tape.values
    Replay(tape, gradients=False).run([made])
    assert len(done) == 4 * once


def test_other_leaves_dropout_and_choices_are_no_repetition() -> None:
    def program(x: Tensor) -> Tensor:
        return (F.dropout(x, 0.5) + x.topk(1, -1).indices).sum()

    x = torch.randn(4, 4)
    tape, given, made = record(program, x)
    with tape.settled():
        plain = Replay(tape, gradients=False).run([made])[made]
        whole = Replay(tape, gradients=False, dropout=False).run([made])[made]
        leaves = {given: -x.double()}
        other = Replay(tape, gradients=False).run([made], leaves=leaves)[made]
        chosen = Replay(tape, gradients=False, replay_choices=False)
        free = chosen.run([made], leaves=leaves)[made]
    assert len({float(v) for v in (plain, whole, other, free)}) == 4


def test_what_a_caller_does_to_its_values_is_of_no_concern_to_the_next() -> None:
    tape, _, made = record(lambda x: x.exp().sum(), torch.randn(4, 4))
    with tape.settled():
        for _ in range(2):
            assert Replay(tape, gradients=False).run([made]).pop(made).numel() == 1
