"""What the loss depends on against what is updated."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from steps import SmallModel, batch, recorded_step, shifted_loss
from torch import nn

from lossleuth.findings.update import Coverage
from lossleuth.probes.update.coverage import coverage
from lossleuth.tape.capture.recorder import Recorder


def found(**more: Any) -> Coverage:
    answer = coverage(recorded_step(**more))
    assert answer is not None
    return answer


def test_a_sound_step_updates_all_that_it_depends_on() -> None:
    sound = found()
    assert (sound.missing, sound.missing_share, sound.frozen) == ((), 0, ())
    assert (sound.unused, sound.unused_match_missing) == (0, False)
    assert sound.held == len(list(SmallModel().parameters()))


def test_what_the_optimizer_was_not_given_is_missing_with_its_share() -> None:
    window = recorded_step(make_optimizer=lambda p: torch.optim.AdamW(list(p)[:-1], lr=1e-3))
    planted = coverage(window)
    assert planted is not None
    (head,) = planted.missing
    assert (head.name, head.elements) == ("head.weight", 23 * 16)
    assert head.file is not None
    assert head.file.endswith("steps.py")
    # Its gradient is that of this step alone, though nobody cleared the one before.
    model = SmallModel().double()
    trained = iter(window.updates[0].before)
    # The weights that every recorded step begins with.
    torch.manual_seed(0)
    first = SmallModel()
    with torch.no_grad():
        for (name, parameter), own in zip(
            model.named_parameters(), first.parameters(), strict=True
        ):
            parameter.copy_(own if name == "head.weight" else next(trained))
    shifted_loss(model, batch()).backward()
    squares = {
        n: float(p.grad.square().sum()) for n, p in model.named_parameters() if p.grad is not None
    }
    share = squares["head.weight"] / sum(squares.values())
    assert planted.missing_share == pytest.approx(share, rel=1e-4)
    assert head.gradient == pytest.approx(squares["head.weight"] ** 0.5, rel=1e-4)


def test_what_wants_no_gradient_and_is_held_is_frozen() -> None:
    def freeze(model: SmallModel) -> None:
        model.head.requires_grad_(False)

    planted = found(change=freeze)
    assert [tensor.name for tensor in planted.frozen] == ["head.weight"]
    assert planted.missing == ()


class Adapted(nn.Module):
    """A frozen layer, and a product of low rank beside it."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given: torch.Tensor = self.layer(x) + self.up(self.down(x))
        return given


@pytest.mark.parametrize(("rank", "thin"), [(2, 1.0), (8, 0.0)])
def test_adapters_are_known_by_their_rank(rank: int, thin: float) -> None:
    def adapt(model: SmallModel) -> None:
        model.requires_grad_(False)
        model.head = Adapted(model.head, rank)

    adapted = found(
        make_optimizer=lambda p: torch.optim.SGD([w for w in p if w.requires_grad], lr=0.1),
        change=adapt,
    )
    assert adapted.frozen_share > 0.5
    assert adapted.thin_share == thin
    assert found().thin_share == 0


def test_one_thin_matrix_alone_is_no_adapter() -> None:
    def thin_last_layer(model: SmallModel) -> None:
        model.requires_grad_(False)
        model.head = Adapted(model.head, 2)
        model.head.up.requires_grad_(False)

    trained = found(
        make_optimizer=lambda p: torch.optim.SGD([w for w in p if w.requires_grad], lr=0.1),
        change=thin_last_layer,
    )
    assert trained.frozen_share > 0.5
    assert trained.thin_share == 0


def test_what_is_held_and_not_used_is_counted() -> None:
    def more(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW([*parameters, nn.Parameter(torch.ones(2))], lr=1e-3)

    planted = found(make_optimizer=more)
    assert (planted.unused, planted.missing) == (1, ())
    assert not planted.unused_match_missing


def test_other_copies_of_the_weights_are_recognised() -> None:
    stale = list(SmallModel().parameters())
    planted = found(make_optimizer=lambda p: torch.optim.AdamW(stale, lr=1e-3))
    assert planted.missing_share == 1
    assert planted.unused == len(stale)
    assert planted.unused_match_missing


def test_without_an_update_there_is_nothing_to_compare() -> None:
    weight = torch.ones(2, requires_grad=True)
    recorder = Recorder(0)
    recorder.start()
    try:
        loss = weight.sum()
        run = recorder.begin_backward([loss], [None])
        loss.backward()
        recorder.end_backward(run)
    finally:
        recorder.stop()
    assert coverage(recorder.window) is None


def test_what_is_frozen_once_the_step_was_made_was_not_frozen_in_it() -> None:
    """A teacher, say, whose last step is looked at when the student's first begins."""
    window = recorded_step()
    for leaf in window.tape.leaves.values():
        if leaf.is_floating_point():
            leaf.requires_grad_(False)
    later = coverage(window)
    assert later is not None
    assert (later.frozen, later.frozen_share, later.missing) == ((), 0.0, ())


@pytest.mark.parametrize("asked", [None, 1])
def test_gradients_that_are_asked_for_and_put_in_place_are_the_ones_that_count(
    asked: int | None,
) -> None:
    model = SmallModel()
    held = list(model.parameters())
    optimizer = torch.optim.SGD(held, lr=0.1)
    recorder = Recorder(0)
    recorder.start()
    try:
        loss = shifted_loss(model, batch())
        run = recorder.begin_backward([loss], [None])
        gradients = torch.autograd.grad(loss, held[:asked])
        recorder.end_backward(run, list(zip(held[:asked], gradients, strict=True)))
        for parameter, gradient in zip(held, gradients, strict=False):
            parameter.grad = gradient
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
    finally:
        recorder.stop()
    answer = coverage(recorder.window)
    # Of those that nobody asked for, nothing is known.
    assert (answer is None) is (asked is not None)
    assert answer is None or (answer.missing, answer.held) == ((), len(held))


@pytest.mark.parametrize("moved", [None, -1, 0])
def test_where_updates_are_made_by_hand_what_moves_is_held(moved: int | None) -> None:
    model = SmallModel()
    updated = list(model.parameters())[:moved]
    recorder = Recorder(0)
    recorder.start()
    try:
        loss = shifted_loss(model, batch())
        run = recorder.begin_backward([loss], [None])
        loss.backward()
        recorder.end_backward(run)
        for parameter in updated:
            assert parameter.grad is not None
            parameter.data -= 0.1 * parameter.grad
    finally:
        recorder.stop()
    answer = coverage(recorder.window)
    if not updated:
        # Perhaps it is updated every few steps.
        assert answer is None
        return
    assert answer is not None and answer.by_hand
    missing = [] if moved is None else ["a parameter of shape (23, 16)"]
    assert [tensor.name for tensor in answer.missing] == missing


def test_a_gradient_of_what_the_step_has_computed_hides_nothing() -> None:
    model = SmallModel()
    held = list(model.parameters())
    optimizer = torch.optim.SGD(held, lr=0.1)
    recorder = Recorder(0)
    recorder.start()
    try:
        kept: list[torch.Tensor] = []
        model.between = lambda h: (kept.append(h), h)[1]
        loss = shifted_loss(model, batch())
        asked = [*held, kept[0]]
        run = recorder.begin_backward([loss], [None])
        gradients = torch.autograd.grad(loss, asked)
        recorder.end_backward(run, list(zip(asked, gradients, strict=True)))
        for parameter, gradient in zip(held, gradients, strict=False):
            parameter.grad = gradient
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
    finally:
        recorder.stop()
    answer = coverage(recorder.window)
    assert answer is not None and (answer.missing, answer.held) == ((), len(held))
