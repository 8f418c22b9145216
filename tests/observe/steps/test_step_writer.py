"""Steps on their way into the record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from loops import read, train, watching

from lossleuth.observe.steps import step_writer as closed
from lossleuth.observe.steps.parameters.table import ParameterTable
from lossleuth.observe.steps.step import StepWindow
from lossleuth.observe.steps.step_writer import (
    MAX_WAIT_SECONDS,
    MAX_WAITING_STEPS,
    ClosedStep,
    ClosedSteps,
)
from lossleuth.record.write import RecordWriter


def collect(folder: Path) -> tuple[ClosedSteps, RecordWriter]:
    writer = RecordWriter.create(folder, {}, warn=print)
    writer.parameters([], [], ["grad_l2"])
    return ClosedSteps(lambda: writer, ParameterTable()), writer


def step(number: int, ended: float) -> ClosedStep:
    return ClosedStep(number, StepWindow(ended), ended, 0.0, [])


def test_slow_steps_are_written_at_once_and_quick_ones_wait_a_moment(tmp_path: Path) -> None:
    steps, _ = collect(tmp_path / "run")
    for number in range(3):
        steps.add(step(number, number * MAX_WAIT_SECONDS))
    assert len(read(tmp_path / "run")) == 3
    steps.add(step(3, 2 * MAX_WAIT_SECONDS + MAX_WAIT_SECONDS / 2))
    assert len(read(tmp_path / "run")) == 3
    steps.add(step(4, 3 * MAX_WAIT_SECONDS))
    assert read(tmp_path / "run").steps.tolist() == [0, 1, 2, 3, 4]


def test_very_many_quick_steps_do_not_pile_up(tmp_path: Path) -> None:
    steps, _ = collect(tmp_path / "run")
    for number in range(MAX_WAITING_STEPS + 1):
        steps.add(step(number, 0.0))
    assert len(read(tmp_path / "run")) == MAX_WAITING_STEPS + 1


def test_one_bad_step_does_not_take_others_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[np.ndarray] = []

    def fail_at_the_second(matrix: np.ndarray) -> float:
        calls.append(matrix)
        if len(calls) == 2:
            raise RuntimeError("ours")
        return 1.0

    with watching(tmp_path / "run") as observer:
        monkeypatch.setattr(closed, "global_norm", fail_at_the_second)
        train(4)
        observer.write_event("something", {})
    assert observer.session.failures.count == 1
    assert read(tmp_path / "run").steps.tolist() == [0, 2, 3]
