"""The loss of a program whose gradients are assigned by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from steps import recorded_step
from torch import Tensor

from lossleuth.findings.no_autograd import HandLoss
from lossleuth.probes.loss.hand_loss import hand_loss
from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.window import Window

Reads = Callable[[Tensor, Tensor, Tensor], None]


def reads_loss(loss: Tensor, hidden: Tensor, gradient: Tensor) -> None:
    loss.item()


def reads_more(loss: Tensor, hidden: Tensor, gradient: Tensor) -> None:
    _ = gradient.norm().item(), loss.item()


def reads_no_loss(loss: Tensor, hidden: Tensor, gradient: Tensor) -> None:
    torch.ones(3).sum().item()


def classifier(
    reads: Reads,
    *,
    scale: float = 0.3,
    factor: float = 1.0,
) -> Window:
    """A cross-entropy of a linear layer on embeddings, its gradient written out."""
    torch.manual_seed(0)
    table, head = scale * torch.randn(9, 6), scale * torch.randn(9, 6)
    tokens, before = torch.randint(0, 9, (4, 5)), torch.tensor(7.0)
    optimizer = torch.optim.SGD([table, head], lr=0.1)
    recorder = Recorder(0)
    recorder.start()
    try:
        # The loss of the step before is read when that one has made its update.
        reads(before, hidden=before, gradient=torch.ones(2))
        hidden = table[tokens[:, :-1]].flatten(0, 1)
        targets = tokens[:, 1:].flatten()
        logs = (hidden @ head.T).log_softmax(-1)
        loss = -logs.gather(-1, targets[:, None]).mean()
        delta = logs.exp()
        delta[torch.arange(len(delta)), targets] -= 1
        delta = factor * delta / len(delta)
        head.grad = delta.T @ hidden
        table.grad = torch.zeros_like(table)
        table.grad.index_add_(0, tokens[:, :-1].flatten(), delta @ head)
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
        reads(loss, hidden, head.grad)
    finally:
        recorder.stop()
    return recorder.window


def found(window: Window) -> HandLoss:
    loss = hand_loss(window)
    assert loss is not None
    return loss


def test_what_is_read_and_moved_is_the_loss_also_after_the_update() -> None:
    loss = found(classifier(reads_loss))
    assert loss.value == pytest.approx(2.2, abs=0.2)
    assert loss.place == f"{__file__}:{reads_loss.__code__.co_firstlineno + 1}"
    assert loss.which == 0


@pytest.mark.parametrize(
    ("scale", "factor"), [(0.3, 1.0), (0.3, -1.0), (0.0, 1.0)], ids=["right", "ascent", "dead"]
)
def test_of_two_numbers_in_a_line_the_norm_of_the_gradient_is_not_it(
    scale: float, factor: float
) -> None:
    loss = found(classifier(reads_more, scale=scale, factor=factor))
    assert loss.which == 1
    assert loss.value == pytest.approx(2.2, abs=0.2)


def test_where_nothing_else_tells_it_is_what_was_made_first() -> None:
    """A squared error, and a network of zeros: no gradient, and no cross-entropy."""
    weight, x, y = torch.zeros(3, 3), torch.randn(7, 3), torch.randn(7, 3)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    recorder = Recorder(0)
    recorder.start()
    try:
        error = (x @ weight) @ weight - y
        loss = error.square().mean()
        weight.grad = (x.T @ error) @ weight.T
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
        _ = weight.grad.norm().item(), loss.exp().item(), loss.item()
    finally:
        recorder.stop()
    assert found(recorder.window).which == 2


def test_numbers_that_no_parameter_moves_are_none() -> None:
    assert hand_loss(classifier(reads_no_loss)) is None


def test_a_step_with_a_backward_pass_has_its_loss_already() -> None:
    assert hand_loss(recorded_step()) is None
