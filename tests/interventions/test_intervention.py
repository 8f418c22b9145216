"""What an intervention may do, and that one which does nothing changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from changed_runs import Ran, adamw, sgd, trained, with_changes

from lossleuth.interventions.intervention import Intervention, copies, parameters_of
from lossleuth.tape.window import Backward, Window


class OnTape(Intervention):
    """Nothing, with every step recorded."""

    wants_tape = True


@pytest.mark.parametrize("make", [adamw, sgd])
@pytest.mark.parametrize("change", [None, Intervention, OnTape])
def test_no_change_is_exactly_no_change(
    make: Callable[[Any], torch.optim.Optimizer], change: type[Intervention] | None
) -> None:
    bare = trained(make=make)
    changes = [change()] if change else []
    assert with_changes(lambda: trained(make=make), *changes).is_exactly(bare)


class Noting(Intervention):
    """Notes in which order it is asked."""

    wants_tape = True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def install(self, replace: object) -> None:
        self.asked.append("install")

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        self.asked.append("optimizer made")

    def backward_begins(self, roots: Sequence[Any], *, first: bool) -> None:
        self.asked.append("first backward" if first else "backward")

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        assert window is not None and run is not None
        assert run in window.backwards
        self.asked.append("backward ended")

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        self.asked.append("before update")

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        self.asked.append("after update")


def test_it_is_asked_in_the_order_of_a_step_and_given_the_tape() -> None:
    noting = Noting()
    with_changes(lambda: trained(steps=2), noting)
    step = ["first backward", "backward ended", "before update", "after update"]
    assert noting.asked == ["install", "optimizer made", *step, *step]


def test_parameters_of_all_groups_are_found() -> None:
    one, two = torch.zeros(1, requires_grad=True), torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([{"params": [one]}, {"params": [two]}], lr=0.1)
    assert [p is q for p, q in zip(parameters_of(optimizer), [one, two], strict=True)] == [True] * 2


def test_copies_stay_when_the_original_changes() -> None:
    weight = torch.ones(2, requires_grad=True)
    (kept,) = copies([weight])
    weight.data += 1
    assert kept.tolist() == [1, 1]
    assert not kept.requires_grad


class Rates(Intervention):
    """Counts how often it is asked before and after an update."""

    def __init__(self) -> None:
        self.before = self.after = 0

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        self.before += 1

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        self.after += 1


def test_a_closure_that_is_called_again_and_again_is_one_update() -> None:
    def curved() -> Ran:
        weight = torch.tensor([3.0, -1.0], requires_grad=True)
        optimizer = torch.optim.LBFGS([weight], lr=0.5, max_iter=4)
        losses = []

        def closure() -> float:
            optimizer.zero_grad()
            loss = (weight**4).sum()
            loss.backward()
            return loss.item()

        for _ in range(3):
            losses.append(float(optimizer.step(closure)))
        return Ran(losses, weight.detach().clone())

    counted = Rates()
    assert with_changes(curved, counted).is_exactly(curved())
    assert (counted.before, counted.after) == (3, 3)
