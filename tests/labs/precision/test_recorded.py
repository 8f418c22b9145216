"""The range of a watched run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lossleuth.labs.precision.recorded import recorded_lines, recorded_ranges
from lossleuth.record.write import RecordWriter
from lossleuth.types.errors import BadInput

COLUMNS = ["grad_max", "grad_rms", "weight_rms", "moment2_rms"]


def record(folder: Path, cells: list[list[float]], columns: list[str] = COLUMNS) -> Path:
    writer = RecordWriter.create(folder, {"script": "train.py"}, warn=print)
    writer.parameters(["wte", "head"], [4, 4], columns)
    for step in range(2):
        writer.step({"step": step, "loss": 1.0}, np.array(cells) * (1 + step))
    modules = {"block": [1.0, 70000.0, 0.0], "norm": [0.5, 3.0, 0.0]}
    columns = ["rms", "max", "zero_share"]
    writer.event("activations", {"step": 0, "columns": columns, "modules": modules})
    writer.end({"how": "exit"})
    return folder


def test_ranges_are_those_of_the_whole_run(tmp_path: Path) -> None:
    cells = [[0.5, 1e-9, 0.25, 1e-4], [2.0, 0.25, 1.0, 1e-2]]
    found = {r.name: r for r in recorded_ranges(record(tmp_path / "run", cells))}
    assert list(found) == ["gradients", "weights", "Adam's second moment", "activations"]
    gradients = found["gradients"]
    assert (gradients.largest, gradients.loudest) == (4.0, 0.5)
    assert gradients.lost("float16") == "becomes 0" and gradients.room("float16") > 13
    assert found["Adam's second moment"].loudest == pytest.approx(4e-4)
    assert found["activations"].room("float16") < 0 < found["activations"].room("bfloat16")


def test_a_record_without_sizes_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    writer = RecordWriter.create(folder, {"script": "train.py"}, warn=print)
    writer.step({"step": 0, "loss": 1.0}, None)
    writer.end({"how": "exit"})
    with pytest.raises(BadInput, match="sizes of gradients or weights"):
        recorded_ranges(folder)


def test_lines_fit_a_terminal(tmp_path: Path) -> None:
    cells = [[0.5, 1e-9, 0.25, 1e-40], [2.0, 0.25, 1.0, np.nan]]
    ranges = recorded_ranges(record(tmp_path / "run", cells))
    lines = list(recorded_lines(Path("run"), ranges))
    assert len(lines) == 2 + len(ranges) + 1
    assert max(map(len, lines)) <= 80
