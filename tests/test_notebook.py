"""After `lossleuth.examine` the process is as it was, whatever became of the step function."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from process_state import differences, process_state
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

import lossleuth
from lossleuth.observe import session
from lossleuth.types.errors import BadInput

Step = Callable[[Any, Any, Any], None]


def healthy(model: Any, optimizer: Any, batch: Any) -> None:
    loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()


class Failing:
    """A step that ends with an error, at a place of its fourth call."""

    def __init__(self, error: BaseException, place: str) -> None:
        self._error = error
        self._place = place
        self._calls = 0

    def __call__(self, model: Any, optimizer: Any, batch: Any) -> None:
        self._calls += 1
        # What filters there are is restored by the program, over ours.
        with warnings.catch_warnings():
            logits = model(batch[:, :-1])
            self._fail("forward")
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            logits.register_hook(lambda _: self._fail("backward"))
            optimizer.zero_grad()
            loss.backward()
            self._fail("before the update")
            optimizer.step()
            self._fail("after the update")

    def _fail(self, place: str) -> None:
        # The second step is the first that is recorded.
        if place == self._place and self._calls == 2:
            raise self._error


def by_hand(model: Any, optimizer: Any, batch: Any) -> None:
    """A step without a backward pass."""
    del optimizer, batch
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.999)
            (parameter * 2).sum()


def nothing(model: Any, optimizer: Any, batch: Any) -> None:
    """No step at all."""


def examine(step: Step, **options: Any) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    batches = [torch.randint(0, 8, (4, 6)) for _ in range(6)]
    given = {"steps": 6, "budget": 20.0, "seeds": 2, "trials": False} | options
    state = process_state(globals())
    try:
        return lossleuth.examine(step, model, optimizer, batches, **given)
    finally:
        assert differences(state, process_state(globals())) == []
        assert not session._open_sessions


@pytest.mark.parametrize("trials", [False, True])
def test_a_verdict_leaves_the_process_as_it_was(*, trials: bool) -> None:
    assert examine(healthy, trials=trials).status is not None


PLACES = ("forward", "backward", "before the update", "after the update")


@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_the_step_leaves_the_process_as_it_was(place: str) -> None:
    with pytest.raises(ZeroDivisionError):
        examine(Failing(ZeroDivisionError(), place))


@pytest.mark.parametrize("place", PLACES)
def test_an_interruption_leaves_the_process_as_it_was(place: str) -> None:
    assert examine(Failing(KeyboardInterrupt(), place)).status == "cannot_tell"


@pytest.mark.parametrize("step", [by_hand, nothing])
def test_a_step_without_a_backward_pass_leaves_the_process_as_it_was(step: Step) -> None:
    with pytest.raises(BadInput, match="no training step"):
        examine(step)


def test_twenty_calls_register_nothing_twice_and_keep_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registered: list[Any] = []
    monkeypatch.setattr(sys, "addaudithook", registered.append)
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: registered.append(hooks))
    objects = []
    for _ in range(20):
        examine(healthy, steps=3)
        gc.collect()
        objects.append(len(gc.get_objects()))
    assert len(registered) <= 1
    # The first calls fill caches. A watch that is kept, with its patches, is thousands.
    assert objects[-1] - objects[5] < 200, objects


@pytest.mark.parametrize(
    "leave_behind",
    [
        lambda: setattr(torch.Tensor, "item", torch.Tensor.item),
        lambda: setattr(F, "embedding", F.cross_entropy),
        lambda: warnings.filterwarnings("ignore", "something"),
        lambda: os.environ.update(LOSSLEUTH_LEFT="1"),
        lambda: sys.meta_path.append(sys.meta_path[0]),
        lambda: torch.rand(1),
    ],
)
def test_what_is_left_behind_is_seen(
    leave_behind: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(F, "embedding", F.embedding)
    monkeypatch.setenv("LOSSLEUTH_LEFT", "0")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    with warnings.catch_warnings():
        state = process_state()
        leave_behind()
        found = differences(state, process_state())
    if "item" in vars(torch.Tensor):
        del torch.Tensor.item
    assert len(found) == 1
