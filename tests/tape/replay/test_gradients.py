"""Gradients that are replayed once and looked at by many."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from steps import recorded_step, shifted_loss
from torch import Tensor, nn

from lossleuth.probes.gradient.backward_hook import backward_hooks
from lossleuth.probes.gradient.gradient_truth import gradient_truth
from lossleuth.probes.gradient.graph_cuts import graph_cuts
from lossleuth.probes.gradient.reported_number import reported_numbers
from lossleuth.tape.replay import gradients
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.gradients import (
    MIN_BACKWARDS_KEPT,
    opened_gradients,
    replayed_gradients,
    shared_gradients,
)
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.window import Window


def detached_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    model.between = lambda h: 0.5 * h + 0.5 * h.detach()  # type: ignore[assignment]  # a function
    return shifted_loss(model, tokens)


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each replay was in float64, in order."""
    found: list[bool] = []
    original = Replay.run

    def counted(self: Replay, *args: Any, **kwargs: Any) -> Any:
        found.append(self.float64)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Replay, "run", counted)
    return found


def look(window: Window) -> None:
    run = window.backwards[0]
    gradient_truth(window, run)
    backward_hooks(window, run)
    graph_cuts(window, run)
    reported_numbers(window)


def test_all_who_look_share_one_replay_in_each_precision(replays: list[bool]) -> None:
    look(recorded_step())
    assert sorted(replays) == [False, True]


def test_opening_cuts_takes_another_replay(replays: list[bool]) -> None:
    window = recorded_step(detached_loss)
    graph_cuts(window, window.backwards[0])
    assert replays == [True, True]


def test_without_cuts_the_opened_gradient_is_the_same() -> None:
    window = recorded_step()
    run = window.backwards[0]
    assert not shared_gradients(window, run, float64=True).has_cuts
    opened = replayed_gradients(window.tape, run, float64=True, cuts=Cuts.OPENED)
    kept = opened_gradients(window, run)
    for number, gradient in opened.items():
        other = kept[number]
        assert (gradient is None) == (other is None)
        assert gradient is None or (other is not None and torch.equal(gradient, other))


def test_a_detached_tensor_is_a_cut_and_opening_it_changes_the_gradient() -> None:
    window = recorded_step(detached_loss)
    run = window.backwards[0]
    kept = shared_gradients(window, run, float64=True)
    assert kept.has_cuts
    opened = opened_gradients(window, run)
    changed = [
        i
        for i in run.before
        if (a := kept.gradients[i]) is not None
        and (b := opened[i]) is not None
        and not torch.allclose(a, b)
    ]
    assert changed


def test_a_replay_that_fails_fails_for_all(replays: list[bool]) -> None:
    window = recorded_step()
    run = window.backwards[0]
    run.roots.append(None)
    for _ in range(2):
        with pytest.raises(CannotReplay, match="before recording began"):
            shared_gradients(window, run, float64=True)
    assert len(window.replayed) == 1


@pytest.mark.parametrize(
    ("room", "kept"), [(0, 2 * MIN_BACKWARDS_KEPT), (1 << 25, 3 * MIN_BACKWARDS_KEPT + 1)]
)
def test_only_so_many_gradients_are_kept(
    room: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradients, "MAX_NUMBERS_KEPT", room)
    window = recorded_step()
    run = window.backwards[0]
    for i in range(3 * MIN_BACKWARDS_KEPT):
        window.replayed[i, True] = shared_gradients(window, run, float64=True)
        window.replayed.pop((id(run), True), None)
    shared_gradients(window, run, float64=True)
    assert len(window.replayed) == kept
    assert (id(run), True) in window.replayed


@pytest.mark.parametrize("seed", [None, 1.0, 3.0])
def test_the_gradient_is_scaled_by_what_the_loss_was_given(seed: float | None) -> None:
    window = recorded_step()
    (run,) = window.backwards
    plain = replayed_gradients(window.tape, run, float64=True)
    run.seeds = [None if seed is None else torch.tensor(seed)]
    given = replayed_gradients(window.tape, run, float64=True)
    pairs = [(plain[i], given[i]) for i in plain]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    assert len(known) > 5
    for a, b in known:
        torch.testing.assert_close(b, (1.0 if seed is None else seed) * a)
