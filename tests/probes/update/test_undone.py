"""Updates beside what is left of them."""

from __future__ import annotations

import pytest
import torch
from steps import SmallModel, batch, shifted_loss
from torch import Tensor

from lossleuth.probes.update.undone import undone
from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.window import Window


def step(back: float) -> Window:
    """A recorded step, after whose update the weights go back so much of the way."""
    torch.manual_seed(0)
    model = SmallModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    recorder = Recorder(0)
    recorder.start()
    try:
        loss: Tensor = shifted_loss(model, batch())
        run = recorder.begin_backward([loss], [None])
        loss.backward()
        recorder.end_backward(run)
        before = [p.detach().clone() for p in model.parameters()]
        recorder.before_update(optimizer)
        optimizer.step()
        recorder.after_update(optimizer)
        if back:
            put_back(model, before, back)
    finally:
        recorder.stop()
    return recorder.window


@torch.no_grad()
def put_back(model: SmallModel, before: list[Tensor], share: float) -> None:
    for parameter, old in zip(model.parameters(), before, strict=True):
        parameter.lerp_(old, share)


@pytest.mark.parametrize("back", [1.0, 0.9, 0.5])
def test_what_is_taken_back_is_counted_and_its_line_is_named(back: float) -> None:
    found = undone(step(back))
    assert found is not None
    assert found.share == pytest.approx(back, abs=1e-3)
    (place,) = found.places
    assert place == f"{__file__}:{put_back.__wrapped__.__code__.co_firstlineno + 3}"


def test_an_update_that_lasts_is_whole() -> None:
    found = undone(step(0.0))
    assert found is not None
    assert (found.share, found.places) == (0.0, ())
