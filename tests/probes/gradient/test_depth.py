"""Where over depth a gradient departs from the truth."""

from __future__ import annotations

from typing import Any

import torch
from steps import batch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.gradient.depth import Depth, depth
from lossleuth.tape.capture.recorder import Recorder


class Off(torch.autograd.Function):
    """The identity, with a gradient that is a little too large."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 1.001


class Layer(nn.Module):
    def __init__(self, *, wrong: bool, in_place: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.wrong, self.in_place = wrong, in_place

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        if self.in_place:
            return y.mul_(0.5)  # type: ignore[no-any-return]  # a tensor
        y = torch.tanh(y)
        return x + (Off.apply(y) if self.wrong else y)  # type: ignore[no-any-return]  # a tensor


def ladder(wrong: int | None, *, in_place: bool = False) -> Depth:
    torch.manual_seed(0)
    layers = [Layer(wrong=i == wrong, in_place=in_place) for i in range(4)]
    model = nn.Sequential(nn.Embedding(23, 8), *layers, nn.Linear(8, 23))
    recorder = Recorder(0)
    names = {id(m): name or "all" for name, m in model.named_modules()}
    hooks = [
        hook
        for m in model.modules()
        for hook in (
            m.register_forward_pre_hook(lambda m, _: recorder.enter_module(names[id(m)])),
            m.register_forward_hook(lambda m, _, out: recorder.leave_module(out)),
        )
    ]
    recorder.start()
    try:
        logits = model(batch())
        loss = F.cross_entropy(logits.flatten(0, 1), batch().flatten())
        run = recorder.begin_backward([loss], [None])
        loss.backward()
        recorder.end_backward(run)
    finally:
        recorder.stop()
        for hook in hooks:
            hook.remove()
    return depth(recorder.window, run)


def test_a_sound_model_departs_nowhere() -> None:
    found = ladder(None)
    assert found.untested is None
    assert found.first is None
    modules = [rung.module for rung in found.rungs]
    # From the loss backwards.
    assert [m for m in modules if "." not in m] == ["5", "4", "3", "2", "1", "0"]
    assert all(rung.error < 1e-6 for rung in found.rungs)


def test_the_first_departure_is_below_the_fault_and_above_it_all_is_true() -> None:
    found = ladder(2)
    assert found.first is not None
    assert found.last_true is not None
    # The fault is inside the third layer, between its linear part and its result.
    assert found.first.module == "3.linear"
    assert found.last_true.module == "3"
    assert found.first.error > 1e-4
    assert found.first.file == __file__


def test_results_that_are_overwritten_are_left_out() -> None:
    found = ladder(None, in_place=True)
    assert found.first is None
    assert found.rungs
