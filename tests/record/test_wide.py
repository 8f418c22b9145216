"""One wide table of a record."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from recorded import HOSTILE, never, write_small

from lossleuth.record.read import Record
from lossleuth.record.wide import Wide
from lossleuth.record.write import RecordWriter


def test_each_value_stands_under_its_label(tmp_path: Path) -> None:
    write_small(tmp_path)
    wide = Wide(Record.open(tmp_path))
    assert wide.labels == [
        *("step", "loss", "norms", HOSTILE, "seed", "ok"),
        *("norm/wte", "norm/head", "norm/lora"),
        *("gradient/wte", "gradient/head", "gradient/lora"),
    ]
    rows = [dict(zip(wide.labels, row, strict=True)) for row in wide.rows()]
    assert [row["step"] for row in rows] == [0, 1, 1, -3]
    first = rows[0]
    assert (first["norm/wte"], first["norm/head"], first["norm/lora"]) == (1.0, -0.0, None)
    assert math.isnan(first["gradient/wte"])
    assert first["gradient/head"] == 5e-324
    assert [rows[1][label] for label in wide.cells] == [None] * 6
    assert [rows[2][label] for label in wide.cells] == [7.0, 8.0, 9.0, None, None, None]
    assert (rows[2]["seed"], rows[2]["ok"], rows[2]["loss"]) == (2**60 + 1, True, None)


def test_a_scalar_called_as_a_cell_keeps_a_label_of_its_own(tmp_path: Path) -> None:
    writer = RecordWriter.create(tmp_path, {}, never)
    writer.parameters(["w"], [1], ["norm"])
    writer.step({"norm/w": 1.0, "norm/w (2)": 2.0}, np.array([[3.0]]))
    wide = Wide(Record.open(tmp_path))
    assert wide.labels == ["step", "norm/w", "norm/w (2)", "norm/w (3)"]
    assert list(wide.rows()) == [[0, 1.0, 2.0, 3.0]]


def test_a_record_without_parameters_has_its_scalars(tmp_path: Path) -> None:
    RecordWriter.create(tmp_path, {}, never).step({"step": 5, "loss": 1.0}, None)
    wide = Wide(Record.open(tmp_path))
    assert (wide.labels, list(wide.rows())) == (["step", "loss"], [[5, 1.0]])
