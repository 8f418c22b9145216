"""Interventions in a running program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from loops import read, train, watching
from torch import Tensor

from lossleuth.interventions.intervention import Intervention
from lossleuth.interventions.registry import make, modules
from lossleuth.observe.patches.interventions import Intervening
from lossleuth.observe.session import Session
from lossleuth.observe.steps.observer import Observer
from lossleuth.observe.stop import InterventionFailed
from lossleuth.types.change import Change

NAMES = sorted(modules())
# Of those that have no dose by default.
DOSES: dict[str, dict[str, float | str]] = {
    "differentiate_forward": {"functions": "Tanh"},
    "cap_epsilon": {"value": 1e-8},
    "cap_lr": {"rate": 0.001},
    "scale_lr": {"factor": 0.5},
    "scale_gradient": {"factor": 2},
    "scale_lesson": {"factor": 2},
    "stretch_schedule": {"factor": 2},
    "clip_gradients": {"norm": 1e-3},
    "shift_labels": {"offset": 1},
    "autocast": {"enabled": False},
}


class Busy(Intervention):
    """Trains something of its own within the program's steps."""

    wants_tape = True

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        own = torch.ones(3, requires_grad=True)
        with torch.enable_grad():
            own.square().sum().backward()
        torch.optim.SGD([own], lr=0.1).step()


def test_what_it_does_is_not_taken_for_the_programs(tmp_path: Path) -> None:
    bare = train(4)
    with watching(tmp_path / "run", interventions=[Busy()]):
        assert train(4) == bare
    record = read(tmp_path / "run")
    assert record.series("loss").tolist() == bare
    assert set(record.series("backwards")) == {1}
    assert set(record.series("updates")) == {1}
    assert record.events("settings")[-1].data["idle_optimizers"] == []


class Failing(Intervention):
    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        raise ValueError("no such thing")


def test_one_that_fails_ends_the_run_and_says_which_and_why(tmp_path: Path) -> None:
    with (
        pytest.raises(InterventionFailed, match="Failing: ValueError: no such thing"),
        watching(tmp_path / "run", interventions=[Failing()]),
    ):
        train(3)
    assert train(2)


class Order(Intervention):
    def __init__(self) -> None:
        self.firsts: list[bool] = []

    def backward_begins(self, roots: Sequence[Any], *, first: bool) -> None:
        self.firsts.append(first)


def test_the_first_backward_pass_after_an_update_is_known(tmp_path: Path) -> None:
    order = Order()
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with watching(tmp_path / "run", interventions=[order]):
        for number in range(6):
            weight.square().sum().backward()
            if number % 3 == 2:
                optimizer.step()
    assert order.firsts == [True, False, False, True, False, False]


class ByHand(Intervention):
    def __init__(self) -> None:
        self.seen: list[tuple[list[float], list[float]]] = []

    def updated_by_hand(self, parameters: Sequence[Tensor], before: Sequence[Tensor]) -> None:
        self.seen.append((parameters[0].tolist(), before[0].tolist()))


def test_updates_without_an_optimizer_are_told_with_what_was_before(tmp_path: Path) -> None:
    hand = ByHand()
    weight = torch.tensor([4.0], requires_grad=True)
    with watching(tmp_path / "run", interventions=[hand]):
        for _ in range(3):
            weight.sum().backward()
            weight.data -= 1
    assert hand.seen[:2] == [([3.0], [4.0]), ([2.0], [3.0])]


def test_without_interventions_it_is_nothing() -> None:
    session = Session()
    recording = Observer(lambda: None, session).recording  # type: ignore[arg-type,return-value]  # nothing is written
    nothing = Intervening([], recording, session)
    assert not nothing
    assert not nothing.wants_tape
    some = Intervening([Intervention(), Busy()], recording, session)
    assert some
    assert some.wants_tape


# A change that acts from a later step on.

BEFORE = 6
# There is no softmax to be skipped in these, and no function outside torch.
WITHOUT_WORK = ("skip_softmax", "measure_backward")
EVERY = [Change.of(name, **DOSES.get(name, {})) for name in NAMES if name not in WITHOUT_WORK]


def twice() -> list[float]:
    """Two trainings of the same kind, one after the other, each with a start of its own."""
    return [loss for count in (BEFORE, 8) for loss in train(count)]


@pytest.mark.parametrize("change", EVERY, ids=lambda change: str(change.name))
def test_in_a_later_phase_it_does_what_it_does_in_a_run_by_itself(
    tmp_path: Path, change: Change
) -> None:
    bare = train(BEFORE)
    with watching(tmp_path / "alone", interventions=[make(change)]):
        alone = train(8)
    with watching(tmp_path / "later", interventions=[make(change)], from_step=BEFORE):
        later = twice()
    assert later[:BEFORE] == bare
    assert later[BEFORE:] == alone


def test_one_that_changes_nothing_changes_nothing_later_either(tmp_path: Path) -> None:
    bare = twice()
    change = Change.of("scale_lr", factor=1.0)
    with watching(tmp_path / "run", interventions=[make(change)], from_step=BEFORE):
        assert twice() == bare


def test_torch_is_given_back_after_a_late_change(tmp_path: Path) -> None:
    before = torch.nn.functional.embedding, torch.nn.functional.cross_entropy
    with watching(
        tmp_path / "run", interventions=[make(Change.of("freeze_batch"))], from_step=BEFORE
    ):
        twice()
    assert (torch.nn.functional.embedding, torch.nn.functional.cross_entropy) == before
