"""JSON lines: strict, whole, in the order of the log."""

from __future__ import annotations

import math
from pathlib import Path

from recorded import COLUMNS, HOSTILE, never, strict, write_small

from lossleuth.record.export_jsonl import export_jsonl
from lossleuth.record.read import Record
from lossleuth.record.values import restore
from lossleuth.record.write import RecordWriter


def test_all_that_the_log_holds_is_there_in_order(tmp_path: Path) -> None:
    write_small(tmp_path / "run")
    export_jsonl(Record.open(tmp_path / "run"), tmp_path / "out.jsonl")
    lines = [strict(line) for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    assert lines == [
        {"kind": "header", "data": {"script": "train.py", "rate": "Infinity"}},
        {"kind": "parameters", "names": ["wte", "head"], "sizes": [64, 8], "columns": COLUMNS},
        {
            "kind": "step",
            "step": 0,
            "scalars": {"step": 0, "loss": 2.5, "norms": [1.0, "Infinity"]},
            "matrix": [[1.0, "NaN"], [-0.0, 5e-324]],
        },
        {
            "kind": "step",
            "step": 1,
            "scalars": {"step": 1, "loss": "NaN", HOSTILE: "-1+1"},
            "matrix": None,
        },
        {
            "kind": "event",
            "event": "warning",
            "data": {"text": "NaN at step 1", "value": "NaN"},
        },
        {
            "kind": "parameters",
            "names": ["wte", "head", "lora"],
            "sizes": [64, 8, 4],
            "columns": ["norm"],
        },
        {
            "kind": "step",
            "step": 1,
            "scalars": {"step": 1, "seed": 2**60 + 1, "ok": True},
            "matrix": [[7.0], [8.0], [9.0]],
        },
        {
            "kind": "step",
            "step": -3,
            "scalars": {"step": -3, "loss": "-Infinity"},
            "matrix": [[1.0], [2.0], [3.0]],
        },
        {"kind": "end", "data": {"exit": 0}},
    ]
    assert math.copysign(1, lines[2]["matrix"][1][0]) == -1
    assert restore(lines[7]["scalars"])["loss"] == -math.inf


def test_a_run_without_an_end_has_no_line_for_it(tmp_path: Path) -> None:
    write_small(tmp_path / "run", end=False).close()
    export_jsonl(Record.open(tmp_path / "run"), tmp_path / "out.jsonl")
    kinds = [strict(line)["kind"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert kinds.count("step") == 4
    assert "end" not in kinds


def test_odd_names_stay_on_their_line(tmp_path: Path) -> None:
    odd = "two\nlines \u2028 \u0000 \udce9 </script> \x1b[31m"
    RecordWriter.create(tmp_path / "run", {}, never).step({odd: 1.0}, None)
    export_jsonl(Record.open(tmp_path / "run"), tmp_path / "out.jsonl")
    data = (tmp_path / "out.jsonl").read_bytes()
    assert data.isascii()
    assert [strict(line)["kind"] for line in data.decode().splitlines()] == ["header", "step"]
    assert strict(data.splitlines()[1])["scalars"] == {odd: 1.0}
