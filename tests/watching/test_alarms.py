"""Numbers that mean something."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossleuth.observe.steps.parameters.readings import READINGS
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter
from lossleuth.watching.alarms import alarms

HEALTHY = {"loss": 2.5, "lr": 1e-3, "supervised": 64, "classes": 10}


def record(folder: Path, steps: list[dict[str, Any]], **columns: float) -> Record:
    writer = RecordWriter.create(folder, {}, print)
    writer.parameters(["layer.weight"], [4], READINGS)
    row = {"update_rms": 1e-3, "grad_nonfinite": 0.0} | columns
    matrix = np.array([[row.get(name, 1.0) for name in READINGS]])
    for number, scalars in enumerate(steps):
        writer.step({"step": number} | scalars, matrix)
    writer.end({})
    return Record.open(folder)


def test_a_healthy_run_raises_no_alarm(tmp_path: Path) -> None:
    assert alarms(record(tmp_path / "r", [HEALTHY] * 5)) == []


def test_a_run_without_any_of_the_numbers_raises_none(tmp_path: Path) -> None:
    assert alarms(record(tmp_path / "r", [{}] * 5)) == []


@pytest.mark.parametrize(
    ("change", "columns", "sentence"),
    [
        ({"loss": math.nan}, {}, "the loss is nan at step 0, the first of 5 such steps"),
        ({"lr": 0.0}, {}, "the learning rate is 0 in 5 of 5 steps"),
        ({"supervised": 0}, {}, "no token is supervised at step 0"),
        ({}, {"update_rms": 0.0}, "no parameter moved in 5 steps"),
        ({}, {"grad_nonfinite": 3.0}, "the gradient of layer.weight has 3 non-finite entries"),
        ({"loss": math.log(10)}, {}, "the loss is ln 10 = 2.3026 at all 5 steps"),
    ],
)
def test_each_fault_is_said_in_plain_words(
    tmp_path: Path, change: dict[str, Any], columns: dict[str, float], sentence: str
) -> None:
    (found,) = alarms(record(tmp_path / "r", [HEALTHY | change] * 5, **columns))
    assert sentence in found


def test_a_loss_that_starts_at_ln_v_and_falls_is_healthy(tmp_path: Path) -> None:
    steps = [HEALTHY | {"loss": math.log(10) - 0.1 * k} for k in range(5)]
    assert alarms(record(tmp_path / "r", steps)) == []
