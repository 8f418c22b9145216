"""Gradients made by hand."""

from __future__ import annotations

import pytest
import torch

from lossleuth.findings.no_autograd import HandGradient
from lossleuth.probes.no_autograd.hand_gradient import hand_gradients
from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.window import Window


def regression(factor: float) -> Window:
    """Least squares with the gradient written out, times a factor."""
    torch.manual_seed(0)
    weight, x, y = torch.randn(5, 3), torch.randn(7, 5), torch.randn(7, 3)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    recorder = Recorder(0)
    recorder.start()
    try:
        error = x @ weight - y
        loss = (error * error).mean()
        loss.item()
        error.abs().max().item()
        weight.grad = factor * 2 * x.t() @ error / error.numel()
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
    finally:
        recorder.stop()
    return recorder.window


def best(window: Window) -> HandGradient:
    return hand_gradients(window)[0]


def test_a_right_gradient_is_that_of_the_number_that_was_read() -> None:
    found = best(regression(1.0))
    assert found.error < 10 * found.floor + 1e-7
    assert found.cosine == pytest.approx(1)
    assert found.place is not None
    assert __file__ in found.place


@pytest.mark.parametrize("factor", [1.001, 2.0, 0.5])
def test_a_wrong_scale_is_seen(factor: float) -> None:
    found = best(regression(factor))
    assert found.error == pytest.approx(abs(factor - 1), rel=1e-3)
    assert found.cosine == pytest.approx(1)
    assert found.error > 20 * found.floor


def test_a_window_with_a_backward_is_not_by_hand() -> None:
    from steps import recorded_step

    assert hand_gradients(recorded_step()) == []
