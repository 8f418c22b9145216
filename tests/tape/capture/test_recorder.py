"""Recording a step."""

from __future__ import annotations

import torch
from steps import SmallModel, batch, recorded_step, shifted_loss

from lossleuth.tape.capture.recorder import Recorder


def test_a_window_holds_the_backward_and_the_update() -> None:
    window = recorded_step()
    (run,) = window.backwards
    (update,) = window.updates
    assert run.place is not None
    assert run.place.file.endswith("steps.py")
    assert [gradient is not None for gradient in update.gradients] == [True] * 11
    assert all("exp_avg" in state for state in update.state)
    moved = [(a - b).abs().max() for a, b in zip(update.after, update.before, strict=True)]
    assert min(moved) > 0


def test_nothing_of_the_backward_is_on_the_tape() -> None:
    window = recorded_step()
    at = window.backwards[0].at
    assert not any("backward" in op.name for op in window.tape.operations)
    assert len(window.tape.operations) - at < 5


def test_returned_gradients_are_kept_by_their_inputs() -> None:
    torch.manual_seed(0)
    model = SmallModel()
    recorder = Recorder(0)
    recorder.start()
    try:
        loss = shifted_loss(model, batch())
        inputs = [model.head.weight, model.up.bias]
        run = recorder.begin_backward([loss], [None])
        found = torch.autograd.grad(loss, inputs)
        recorder.end_backward(run, list(zip(inputs, found, strict=True)))
    finally:
        recorder.stop()
    assert run.returned
    kept = list(run.added().values())
    assert len(kept) == 2
    assert kept[0] is not None
    assert torch.equal(kept[0], found[0].double())


def test_stopping_leaves_other_modes_in_place() -> None:
    from torch.utils._python_dispatch import (
        TorchDispatchMode,
        _get_current_dispatch_mode_stack,
    )

    class Other(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # a mode
            return func(*args, **(kwargs or {}))

    recorder = Recorder(0)
    recorder.start()
    with Other() as other:
        recorder.stop()
        assert _get_current_dispatch_mode_stack() == [other]
        recorder.stop()
    assert _get_current_dispatch_mode_stack() == []
