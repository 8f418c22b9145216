"""Calls outside torch as a part of a replay."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from outside_kernels import compiled, in_c, in_numpy
from steps import SmallModel, recorded_step
from torch import Tensor

from lossleuth.findings.model import Leaks
from lossleuth.probes.run import run_probes
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.gradients import replayed_gradients
from lossleuth.tape.replay.index import Index
from lossleuth.tape.replay.link_outside import link_outside
from lossleuth.tape.replay.outside import gradients_again, run_again
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.window import Window


class Note:
    """Counts calls."""

    calls = 0


class Drawing(torch.autograd.Function):
    """Draws numbers that change nothing, and doubles its input in place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, note: Note, more: dict[str, Tensor]) -> Tensor:
        random.random(), np.random.rand(), torch.rand(1)
        note.calls += 1
        values = x.detach().numpy()
        values += more["zero"].numpy()
        values *= 2
        return torch.from_numpy(values.copy())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return 2 * gradient, None, None


def step(function: Any) -> Window:
    def plant(model: SmallModel) -> None:
        model.between = function

    window = recorded_step(change=plant)
    link_outside(window.tape)
    return window


def moved(window: Window, number: int) -> Any:
    """The logits, where one row of a tensor is moved at the operations that use it."""
    root = window.backwards[0].roots[0]
    assert root is not None

    def change(_: int, there: Tensor) -> Tensor:
        other = there.clone()
        other[0] += 1
        return other

    return Replay(window.tape, gradients=False).run([root], inputs={number: change})[root]


def random_states() -> tuple[Any, ...]:
    keys, at = np.random.get_state()[1:3]
    return random.getstate(), keys.tolist(), at, torch.get_rng_state().tolist()


@pytest.fixture(params=["ctypes", "numpy"])
def tanh(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return in_numpy()[0] if request.param == "numpy" else in_c(compiled(tmp_path))[0]


def test_a_replay_follows_a_change_through_it(tanh: Any) -> None:
    """As through torch's own function."""
    found, wanted = (
        Replay(w.tape).run([w.backwards[0].roots[0]], leaves={n: w.tape.value(n) + 0.1})
        for w in (step(tanh), step(torch.tanh))
        for n in [next(i for i, name in w.names.items() if name == "positions.weight")]
    )
    (one,), (other,) = found.values(), wanted.values()
    assert float(one) == pytest.approx(float(other), rel=1e-6)


def test_its_gradient_is_that_of_its_own_backward(tanh: Any) -> None:
    windows = [step(tanh), step(torch.tanh)]
    found, wanted = (
        {w.names[i]: g for i, g in replayed_gradients(w.tape, w.backwards[0], float64=True).items()}
        for w in windows
    )
    for name in ("tokens.weight", "qkv.weight", "head.weight"):
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-4, atol=1e-8)


def test_a_forward_that_reads_the_next_position_leaks(tmp_path: Path) -> None:
    for make in (in_numpy, lambda fault="": in_c(compiled(tmp_path), fault)):
        quiet, leaky = (run_probes(step(make(fault)[0])).first(Leaks) for fault in ("", "leak"))
        assert quiet is not None and leaky is not None
        assert quiet.future == 0.0 and (quiet.own or 0.0) > 0.1
        assert leaky.future is not None and leaky.future > 10 * leaky.floor
        # The line that calls the function.
        assert [Path(place).name for place in leaky.places] == ["steps.py:43"]


def test_it_is_seen_as_one_operation_and_what_it_does_within_torch_is_not(tanh: Any) -> None:
    window = step(tanh)
    (call,) = window.tape.functions
    root = window.backwards[0].roots[0]
    assert root is not None
    seen = []
    Replay(window.tape).run([root], each=lambda op, args, made, low: seen.append((op, args, made)))
    inside = range(call.first, call.last + 1)
    ((operation, args, made),) = [one for one in seen if one[0].number in inside]
    assert (operation.inputs, operation.outputs) == (call.inputs, tuple(call.outputs.values()))
    assert operation.place == call.place
    torch.testing.assert_close(made[0], args[0].tanh(), rtol=1e-5, atol=1e-6)


def test_what_cannot_be_run_again_blocks_a_change_and_is_no_lost_input() -> None:
    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            noise = np.random.default_rng().standard_normal(tuple(x.shape))
            return torch.from_numpy((x.detach().numpy() + noise).astype(np.float32))

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient

    window = step(Noisy.apply)
    (call,) = window.tape.functions
    with pytest.raises(CannotReplay, match=r"Noisy at .* cannot be run again"):
        moved(window, call.inputs[0])
    assert run_probes(window).first(Leaks) is None


def test_the_program_keeps_its_tensors_its_objects_and_its_random_numbers() -> None:
    note, more = Note(), {"zero": torch.zeros(1)}
    window = step(lambda h: Drawing.apply(h.clone(), note, more))
    (call,) = window.tape.functions
    called = note.calls
    assert call.opaque_because is None
    values = Replay(window.tape, float64=False).run(list(call.inputs), before=call.first)
    before = {i: value.clone() for i, value in values.items()}
    states = random_states()
    run_again(window.tape, call, values)
    gradients_again(window.tape, call, values, {})
    assert note.calls == called > 0
    assert all(torch.equal(values[i], before[i]) for i in values)
    assert random_states() == states


def test_an_excerpt_of_a_tape_makes_the_call_as_well(tanh: Any) -> None:
    window = step(tanh)
    root = window.backwards[0].roots[0]
    assert root is not None
    whole = Replay(window.tape).run([root])[root]
    part = Index(window.tape).excerpt([root])
    assert len(part.operations) < len(window.tape.operations)
    assert float(Replay(part).run([root])[root]) == float(whole)


def test_kept_results_are_those_of_the_same_inputs_and_links(tanh: Any) -> None:
    def plant(model: SmallModel) -> None:
        model.between = tanh

    window = recorded_step(change=plant)
    tape, root = window.tape, window.backwards[0].roots[0]
    assert root is not None
    number = next(i for i, name in window.names.items() if name == "positions.weight")
    other = {number: tape.value(number) + 0.1}
    replay = Replay(tape, float64=False, gradients=False)
    with tape.settled():
        replay.run([root])
        assert tape.values and tape.plans
        unlinked = replay.run([root], leaves=other)[root]
        link_outside(tape)
        assert tape.outside
        recorded = replay.run([root])[root]
        moved = replay.run([root], leaves=other)[root]
        assert float(replay.run([root])[root]) == float(recorded)
    assert float(replay.run([root])[root]) == float(recorded)
    assert float(replay.run([root], leaves=other)[root]) == float(moved)
    # Before it was linked, nothing led through the call.
    assert float(unlinked) == float(recorded) != float(moved)


def test_linking_drops_results_that_were_kept(tanh: Any) -> None:
    window = step(tanh)
    tape, root = window.tape, window.backwards[0].roots[0]
    assert root is not None
    (call,) = tape.functions
    with tape.settled():
        Replay(tape, gradients=False).run([root])
        assert tape.values and tape.plans
        tape.link_outside(call)
        assert not tape.values and not tape.plans


def test_points_on_the_way_see_what_was_called_before_them(tanh: Any) -> None:
    """The same as a replay up to each of them, also where the call's input is looked at before."""
    window = step(lambda h: tanh(tanh(h * 2)))
    tape = window.tape
    one, other = tape.functions
    ends = len(tape.operations)
    points = {
        one.first: [*one.inputs],
        one.last + 1: [*one.inputs, *one.outputs.values()],
        ends: [*other.outputs.values()],
    }
    seen: dict[int, dict[int, Tensor]] = {}
    replay = Replay(tape, gradients=False)
    replay.at_points(
        points, lambda at, values: seen.update({at: {i: v.clone() for i, v in values.items()}})
    )
    for at, numbers in points.items():
        wanted = replay.run(numbers, before=at)
        assert set(seen[at]) == set(numbers)
        assert all(torch.equal(seen[at][i], wanted[i]) for i in numbers)
    (start,), (end,) = one.inputs, other.outputs.values()
    true = seen[one.first][start].tanh().tanh()
    torch.testing.assert_close(seen[ends][end], true, rtol=1e-5, atol=1e-6)
