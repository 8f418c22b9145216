"""Steps that nothing but writes to tensors gives away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from any_finding import finding

from lossleuth.findings.no_autograd import HandStep
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.observe.no_autograd.loop_finder import HandLoop
from lossleuth.observe.session import Session
from lossleuth.observe.stop import Limit, StopRun
from lossleuth.tape.window import Window

Step = Callable[[int], None]


def hand_step(step: int, place: str, operation: str) -> RecordedStep:
    """A recorded step whose loss is made at that place."""
    made = replace(finding(HandStep, 1.0), loss_place=place, loss_operation=operation)
    return RecordedStep(step, [made])


class Watched:
    """What was told while a loop ran."""

    def __init__(self, step: Step, turns: int, *, windows: tuple[int, ...] = (2,)) -> None:
        self.rows: list[dict[str, Any]] = []
        self.windows: list[Window] = []
        self.session = Session()

        def look(window: Window) -> RecordedStep:
            made = next((op for op in window.tape.operations if op.name == "sin"), None)
            if made is None:
                return RecordedStep(window.step)
            self.windows.append(window)
            return hand_step(window.step, str(made.place), "sin")

        def told(kind: str, data: dict[str, Any]) -> None:
            if kind == "step":
                self.rows.append(data)

        loop = HandLoop(windows, Limit(steps=10**6), look, told, self.session)
        with loop:
            for turn in range(turns):
                step(turn)
        self.steps = loop.steps


def simple() -> Step:
    weight, other = torch.ones(3), torch.ones(2)

    def step(_: int) -> None:
        gradient = 2 * (weight * 3).sin().cos().exp()
        noise = torch.zeros(3)
        noise[0] += 1
        weight.sub_(0.1 * gradient)
        other.sub_(0.1)

    return step


def with_an_inner_loop() -> Step:
    """Gradients are added up over positions, in memory that is kept, before the update."""
    weight, added = torch.ones(3), torch.zeros(3)

    def step(_: int) -> None:
        (weight * 2).sin().cos().tan().exp().log()
        added.zero_()
        for _position in range(5):
            added.add_(weight)
        weight.sub_(0.1 * added)

    return step


def test_tensors_that_take_each_others_place_are_followed_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lossleuth.observe.no_autograd.loop_finder.PATIENCE", 50)
    weights = {"a": torch.ones(3), "b": torch.ones(2)}

    def step(_: int) -> None:
        for name, weight in weights.items():
            weight.sin().cos().exp()
            weights[name] = weight - 0.1 * weight.square()

    (window,) = (watched := Watched(step, 60)).windows
    assert watched.session.failures.count == 0
    assert 30 <= watched.steps < 60
    assert [op.name for op in window.tape.operations].count("sub") == 2


@pytest.mark.parametrize("make", [simple, with_an_inner_loop])
def test_every_turn_of_the_loop_is_a_step(make: Callable[[], Step]) -> None:
    watched = Watched(make(), 200)
    assert watched.session.failures.count == 0
    # Some turns pass before the loop is known; then none is missed.
    assert 140 <= watched.steps < 200
    assert [row["step"] for row in watched.rows] == list(range(watched.steps))


@pytest.mark.parametrize("make", [simple, with_an_inner_loop])
def test_a_recorded_step_is_one_whole_turn_from_its_forward_pass_on(
    make: Callable[[], Step],
) -> None:
    (window,) = Watched(make(), 100).windows
    names = [operation.name for operation in window.tape.operations]
    assert names[0] == "mul"
    assert names.count("sin") == 1
    assert names[-1] == "sub_"


def test_a_program_without_a_loop_has_no_steps() -> None:
    weight = torch.ones(3)

    def once(turn: int) -> None:
        if not turn:
            weight.sub_(1)

    assert Watched(once, 40).steps == 0


def test_the_loss_is_read_in_every_step_once_it_is_known() -> None:
    weight = torch.full((3,), 2.0)
    rows: list[dict[str, Any]] = []

    def look(window: Window) -> RecordedStep:
        made = next(op for op in window.tape.operations if op.name == "sum")
        return hand_step(window.step, str(made.place), "sum")

    def told(kind: str, data: dict[str, Any]) -> None:
        if kind == "step":
            rows.append(data)

    values = []
    with HandLoop((1,), Limit(steps=10**6), look, told, Session()):
        for _ in range(120):
            loss = (weight * weight).sum()
            values.append(float(loss))
            weight.sub_(0.1 * weight)
    known = [row["loss"] for row in rows if "loss" in row]
    assert known[-5:] == values[-5:]


def test_it_ends_after_as_many_steps_as_were_wanted() -> None:
    step = simple()
    loop = HandLoop((), Limit(steps=5), lambda w: RecordedStep(w.step), lambda *_: None, Session())
    with pytest.raises(StopRun), loop:
        for turn in range(100):
            step(turn)
    assert loop.steps == 5
