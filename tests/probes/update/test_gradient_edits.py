"""Between backward and update."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from steps import SmallModel, batch, shifted_loss

from lossleuth.findings.update import GradientEdits
from lossleuth.probes.update.gradient_edits import gradient_edits
from lossleuth.tape.capture.recorder import Recorder


def handled(between: Callable[[SmallModel], None]) -> GradientEdits | None:
    torch.manual_seed(0)
    model = SmallModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    recorder = Recorder(0)
    recorder.start()
    try:
        loss = shifted_loss(model, batch())
        run = recorder.begin_backward([loss], [None])
        loss.backward()
        recorder.end_backward(run)
        between(model)
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
    finally:
        recorder.stop()
    window = recorder.window
    names = {id(p): name for name, p in model.named_parameters()}
    window.names = {i: names[id(t)] for i, t in window.tape.leaves.items() if id(t) in names}
    return gradient_edits(window)


def test_clipping_is_one_factor_for_all() -> None:
    found = handled(lambda m: torch.nn.utils.clip_grad_norm_(m.parameters(), 0.1) and None)
    assert found is not None
    assert 0 < found.factor < 0.5
    assert found.others == ()


def test_nothing_done_is_a_factor_of_one() -> None:
    assert handled(lambda m: None) == GradientEdits(1.0, (), left=11, wiped=0)


def test_a_gradient_that_was_zeroed_or_dropped_is_named() -> None:
    def zero(model: SmallModel) -> None:
        assert model.up.bias.grad is not None
        model.up.bias.grad.zero_()
        model.norm.bias.grad = None

    found = handled(zero)
    assert found is not None
    assert set(found.others) == {("up.bias", 0.0), ("norm.bias", 0.0)}
    assert (found.left, found.wiped) == (11, 2)


def test_one_layer_that_is_scaled_and_one_that_is_changed_are_told_apart() -> None:
    def tamper(model: SmallModel) -> None:
        assert model.up.weight.grad is not None
        assert model.down.weight.grad is not None
        model.up.weight.grad *= 1.001
        model.down.weight.grad.clamp_(-1e-4, 1e-4)

    found = handled(tamper)
    assert found is not None
    others = dict(found.others)
    assert others["up.weight"] == pytest.approx(1.001)
    assert others["down.weight"] is None
    assert len(others) == 2
