"""Gradients that are worked out by hand, beside the true ones."""

from __future__ import annotations

import pytest
from hand_programs import Program, recorded, wrong_of_tanh

from lossleuth.findings.no_autograd import HandStep
from lossleuth.probes.no_autograd.hand_step import UPDATES_FOLLOWED, hand_step


def found(program: Program) -> HandStep:
    step = hand_step(*recorded(program))
    assert step is not None
    return step


WAYS: list[dict[str, bool]] = [{}, {"momentum": True}, {"replaces": True}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_right_backward_is_the_true_gradient_to_the_last_digits(way: dict[str, bool]) -> None:
    step = found(Program(**way))  # type: ignore[arg-type]  # only flags
    assert set(step.right) == {"table", "inner", "bias", "outer"}
    assert step.wrong == ()
    assert step.error < 1e-12
    assert step.place is None
    assert step.loss_operation == "neg"


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_wrong_derivative_shows_in_all_that_is_behind_it(way: dict[str, bool]) -> None:
    step = found(Program(through=wrong_of_tanh, **way))  # type: ignore[arg-type]  # only flags
    assert step.right == ("outer",)
    assert set(step.wrong) == {"table", "inner", "bias"}
    assert step.error > 0.1
    assert step.followed == UPDATES_FOLLOWED
    assert step.along_own is not None
    assert step.along_true is not None
    assert step.along_true < step.along_own - 0.01
    assert step.along_true < step.loss


def test_a_gradient_in_another_scale_than_the_others_is_wrong() -> None:
    step = found(Program(reduced=lambda d: d.mean(0)))
    assert step.wrong == ("bias",)
    assert step.error > 0.1


def test_a_right_gradient_that_is_taken_times_something_has_a_rate_of_its_own() -> None:
    step = found(Program(own_rate=11.0))
    assert step.wrong == ()


def test_a_factor_that_all_have_is_no_fault() -> None:
    step = found(Program(top=lambda d: 3 * d))
    assert step.wrong == ()
    assert step.error < 1e-12


def test_a_fault_at_the_top_leaves_nothing_right() -> None:
    step = found(Program(top=lambda d: d.abs()))
    assert step.right == ()
    assert len(step.wrong) == 4


def test_a_step_that_writes_to_nothing_is_none() -> None:
    window, names = recorded(Program())
    window.tape.operations.clear()
    assert hand_step(window, names) is None


def test_where_the_true_gradient_leads_nowhere_nothing_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lossleuth.probes.no_autograd.hand_step.STEP_LENGTHS", (1e300,))
    step = found(Program(through=wrong_of_tanh))
    assert (step.followed, step.along_own, step.along_true) == (0, None, None)
