"""Lines that write to parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from steps import SmallModel

from lossleuth.probes.update.update_lines import update_lines
from lossleuth.tape.capture.recorder import Recorder


class Own(torch.optim.Optimizer):
    """An optimizer that the user wrote."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad, alpha=-group["lr"])  # written here


def places_of(make: Callable[[Any], torch.optim.Optimizer] | None) -> list[str]:
    model = SmallModel()
    optimizer = None if make is None else make(model.parameters())
    tokens = torch.randint(0, 5, (3, 9))
    recorder = Recorder(0)
    recorder.start()
    try:
        loss = model(tokens[:, :-1]).square().mean()
        run = recorder.begin_backward([loss], [])
        loss.backward()
        recorder.end_backward(run)
        if optimizer is None:
            with torch.no_grad():
                for p in model.parameters():
                    p.sub_(0.1)  # by hand
        else:
            recorder.before_update(optimizer)
            optimizer.step()
            recorder.after_update(optimizer)
    finally:
        recorder.stop()
    return list(update_lines(recorder.window).places)


def line_of(comment: str) -> str:
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()  # type: ignore[arg-type]  # this module
    (line,) = [i for i, text in enumerate(lines, 1) if text.endswith(f"# {comment}")]
    return f"{__file__}:{line}"


def test_an_optimizer_of_the_users_is_known_by_its_line() -> None:
    assert places_of(Own) == [line_of("written here")]


def test_an_update_by_hand_is_known_by_its_line() -> None:
    assert places_of(None) == [line_of("by hand")]


def test_an_optimizer_of_torch_has_no_line_of_the_users() -> None:
    assert places_of(lambda p: torch.optim.AdamW(p, lr=0.1)) == []
