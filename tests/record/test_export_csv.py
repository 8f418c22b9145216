"""CSV: parsed back number by number, and inert in a spreadsheet."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import HOSTILE, never, write_small

from lossleuth.record.export_csv import export_csv, inert
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter


def exported(record: Record, target: Path) -> list[dict[str, str]]:
    export_csv(record, target)
    with target.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, strict=True))


def test_every_number_comes_back_exactly(tmp_path: Path) -> None:
    write_small(tmp_path / "run")
    rows = exported(Record.open(tmp_path / "run"), tmp_path / "out.csv")
    assert [row["step"] for row in rows] == ["0", "1", "1", "-3"]
    assert [row["loss"] for row in rows] == ["2.5", "nan", "", "-inf"]
    assert rows[2]["seed"] == str(2**60 + 1)
    assert rows[2]["ok"] == "true"
    assert rows[0]["norms"] == '[1.0, "Infinity"]'
    assert math.copysign(1, float(rows[0]["norm/head"])) == -1
    assert float(rows[0]["gradient/head"]) == 5e-324
    assert rows[3]["norm/lora"] == "3.0"
    assert rows[1]["norm/lora"] == ""


def test_names_and_strings_are_inert_and_numbers_untouched(tmp_path: Path) -> None:
    write_small(tmp_path / "run")
    rows = exported(Record.open(tmp_path / "run"), tmp_path / "out.csv")
    assert rows[1]["'" + HOSTILE] == "'-1+1"
    assert HOSTILE not in rows[1]
    assert rows[3]["step"] == "-3"


@pytest.mark.parametrize(
    "text",
    ["=1", "+1", "-1", "@a", "  =1", "\u00a0=1", "＝1", "－1"],  # noqa: RUF001
)
def test_what_a_spreadsheet_might_run_gets_an_apostrophe(text: str) -> None:
    assert inert(text) == "'" + text
    assert inert(f"a;{text}") == f"a;'{text}"


@given(st.text(st.sampled_from("=+-@;\t\r\n 'a1,\"")) | st.text())
def test_any_text_is_kept_and_no_cell_in_it_begins_harmfully(text: str) -> None:
    found = inert(text)
    assert found.replace("'", "") == text.replace("'", "")
    assert not found.startswith(("\t", "\r", "\n"))
    for cell in re.split(r"[;\t\r\n]", found):
        assert not cell.lstrip().startswith(("=", "+", "-", "@"))


def test_separators_quotes_and_line_ends_in_names_split_nothing(tmp_path: Path) -> None:
    writer = RecordWriter.create(tmp_path / "run", {}, never)
    names = ["a,b", "a;b", 'say "x"', "two\nlines", "two\r\nlines", "", " ", "naïve 损失", "<img>"]
    writer.step({name: i + 0.5 for i, name in enumerate(names)}, None)
    (row,) = exported(Record.open(tmp_path / "run"), tmp_path / "out.csv")
    assert [float(row[name]) for name in names] == [i + 0.5 for i in range(len(names))]


def test_half_a_surrogate_is_spelled_out(tmp_path: Path) -> None:
    RecordWriter.create(tmp_path / "run", {}, never).step({"caf\udce9": "\ud800"}, None)
    (row,) = exported(Record.open(tmp_path / "run"), tmp_path / "out.csv")
    assert row["caf\\udce9"] == "\\ud800"


@given(value=st.floats(allow_nan=False))
def test_any_float_reads_back(value: float) -> None:
    assert np.float64(repr(value)).tobytes() == np.float64(value).tobytes()
