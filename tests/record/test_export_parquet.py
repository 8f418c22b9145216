"""Parquet: every value in a column of its type, absent is null."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from recorded import HOSTILE, never, write_small

from lossleuth.record import export_parquet as module
from lossleuth.record.export_parquet import export_parquet, kinds_of
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (True, {"bool_"}),
        (3, {"int64", "float64"}),
        (2**53 + 1, {"int64"}),
        (-(2**63), {"int64", "float64"}),
        (2**63, set()),
        (math.nan, {"float64"}),
        ("x", {"string"}),
        ([1.0], set()),
        ({"unrecorded": "set"}, set()),
    ],
)
def test_a_value_fits_the_columns_that_hold_it_exactly(value: Any, kinds: set[str]) -> None:
    assert kinds_of(value) == kinds


def test_the_table_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    # Small batches, so that there are several.
    monkeypatch.setattr(module, "_VALUES_IN_A_BATCH", 30)
    write_small(tmp_path / "run")
    export_parquet(Record.open(tmp_path / "run"), tmp_path / "out.parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    assert {name: str(table.schema.field(name).type) for name in table.column_names[:6]} == {
        "step": "int64",
        "loss": "double",
        "norms": "string",
        HOSTILE: "string",
        "seed": "int64",
        "ok": "bool",
    }
    columns = {name: table[name].to_pylist() for name in table.column_names}
    assert columns["step"] == [0, 1, 1, -3]
    assert columns["loss"][0] == 2.5
    assert math.isnan(columns["loss"][1])
    assert columns["loss"][2:] == [None, -math.inf]
    assert columns["seed"] == [None, None, 2**60 + 1, None]
    assert columns["norms"] == ['[1.0, "Infinity"]', None, None, None]
    assert columns[HOSTILE] == [None, "-1+1", None, None]
    assert columns["norm/lora"] == [None, None, 9.0, 3.0]
    assert math.copysign(1, columns["norm/head"][0]) == -1
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_column_of_mixed_values_is_json(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    writer = RecordWriter.create(tmp_path / "run", {}, never)
    for mixed, number in ((1, 1), ("a\ud800", 2.5), (None, 3)):
        writer.step({"mixed": mixed, "number": number, "never": None}, None)
    export_parquet(Record.open(tmp_path / "run"), tmp_path / "out.parquet")
    columns = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert columns["mixed"] == ["1", '"a\\ud800"', None]
    assert columns["number"] == [1.0, 2.5, 3.0]
    assert columns["never"] == [None] * 3
