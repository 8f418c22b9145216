"""Reading a record: exactly what was written, in that order."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from recorded import COLUMNS, HEADER, HOSTILE, MATRIX, never, run_script, same, write_small

from lossleuth.record.payloads import Table
from lossleuth.record.read import Event, Record, Row
from lossleuth.record.write import RecordWriter
from lossleuth.types.errors import BadInput

NAN = math.nan


@pytest.fixture
def record(tmp_path: Path) -> Record:
    write_small(tmp_path / "run")
    return Record.open(tmp_path / "run")


def test_everything_of_a_small_record_is_read(record: Record) -> None:
    assert record.header == HEADER
    assert (record.state, record.ended, record.problem) == ("ended", {"exit": 0}, None)
    assert record.steps.tolist() == [0, 1, 1, -3]
    assert record.steps.dtype == np.int64
    assert len(record) == 4
    assert record.scalar_names == ["loss", "norms", HOSTILE, "seed", "ok"]
    assert same(record.series("loss"), [2.5, NAN, NAN, -math.inf])
    assert same(record.series("ok"), [NAN, NAN, 1.0, NAN])
    assert record.values("seed") == [None, None, 2**60 + 1, None]
    assert record.values("norms") == [[1.0, math.inf], None, None, None]
    assert record.values("ok")[2] is True
    assert record.parameter_names == ["wte", "head", "lora"]
    assert record.parameter_sizes == {"wte": 64, "head": 8, "lora": 4}
    assert record.columns == COLUMNS
    assert record.path.name == "record.log"


def test_matrices_are_read_by_the_table_before_them(record: Record) -> None:
    assert same(record.parameter_series("head", "norm"), [-0.0, NAN, 8.0, 2.0])
    assert same(record.parameter_series("head", "gradient"), [5e-324, NAN, NAN, NAN])
    assert same(record.parameter_series("lora", "gradient"), [NAN] * 4)
    assert same(
        record.matrix("norm"),
        [[1.0, -0.0, NAN], [NAN] * 3, [7.0, 8.0, 9.0], [1.0, 2.0, 3.0]],
    )
    assert same(record.matrix("norm", slice(None, None, 2)), record.matrix("norm")[::2])
    assert same(record.matrix("gradient", slice(-1, None)), [[NAN] * 3])


def test_events_and_entries_come_in_the_order_of_the_log(record: Record) -> None:
    (event,) = record.events()
    assert (event.kind, event.steps_before) == ("warning", 2)
    assert math.isnan(event.data["value"])
    assert record.events("other") == []
    kinds = [type(entry) for entry in record.entries()]
    assert kinds == [Table, Row, Row, Event, Table, Row, Row]
    rows = list(record.rows())
    assert [row.step for row in rows] == [0, 1, 1, -3]
    assert rows[0].matrix is not None and same(rows[0].matrix, MATRIX)
    assert (rows[1].table, rows[1].matrix) == (None, None)
    assert rows[2].table == record.tables[1]
    assert [row.matrix for row in record.rows(matrices=False)] == [None] * 4


@pytest.mark.parametrize(
    "ask",
    [
        lambda record: record.series("los"),
        lambda record: record.values("los"),
        lambda record: record.parameter_series("wt", "norm"),
        lambda record: record.parameter_series("wte", "nor"),
        lambda record: record.matrix("nor"),
    ],
)
def test_a_name_that_was_never_recorded_is_refused(record: Record, ask: Any) -> None:
    with pytest.raises(BadInput, match="the name of a recorded"):
        ask(record)


def test_a_text_path_and_a_block_work_too(tmp_path: Path) -> None:
    write_small(tmp_path / "run")
    with Record.open(str(tmp_path / "run" / "record.log")) as record:
        assert len(record) == 4
    before = len(list(Path("/proc/self/fd").iterdir()))
    Record.open(tmp_path / "run")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_states_of_a_run(tmp_path: Path) -> None:
    writer = RecordWriter.create(tmp_path, {}, never)
    record = Record.open(tmp_path)
    assert (record.state, record.ended) == ("running", None)
    assert record.steps.shape == (0,)
    writer.close()
    record.refresh()
    assert record.state == "ended abnormally before the first step"


def test_an_abnormal_end_names_the_last_step(tmp_path: Path) -> None:
    write_small(tmp_path, end=False).close()
    assert Record.open(tmp_path).state == "ended abnormally at step -3"


def test_a_run_that_ended_between_two_looks_is_not_called_abnormal(tmp_path: Path) -> None:
    """The end is written after the scan but before the lock is asked about."""
    writer = write_small(tmp_path, end=False)
    record = Record.open(tmp_path)
    real = os.fstat
    seen: list[int] = []

    def late(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        if not seen:
            seen.append(descriptor)
            writer.end({"exit": 0})
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fstat", late)
        record.refresh()
    assert (record.state, record.problem) == ("ended", None)


def test_a_record_is_followed_while_it_grows(tmp_path: Path) -> None:
    writer = RecordWriter.create(tmp_path, {}, never)
    record = Record.open(tmp_path)
    for step in range(50):
        if step == 25:
            writer.parameters(["a", "b"], [1, 1], ["c"])
        matrix = np.array([[step], [2.0 * step]]) if step >= 25 else None
        writer.step({"step": step, "loss": step / 7}, matrix)
        assert len(record) == step
        record.refresh()
        assert same(record.series("loss"), [n / 7 for n in range(step + 1)])
    assert same(record.parameter_series("b", "c")[24:27], [NAN, 50.0, 52.0])


def test_what_was_read_is_a_copy(record: Record) -> None:
    record.steps[:] = 9
    record.series("loss")[:] = 9
    assert record.steps[0] == 0
    assert record.series("loss")[0] == 2.5


numbers = npst.arrays(np.float64, (2, 3), elements=st.floats(width=64, allow_subnormal=True))
scalars = st.dictionaries(
    st.text(min_size=1).filter(lambda name: name != "step"),
    st.floats() | st.integers() | st.booleans(),
    max_size=5,
)
steps = st.lists(
    st.tuples(st.integers(-(2**63), 2**63 - 1), scalars, st.none() | numbers), max_size=8
)


@given(steps)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_steps_come_back_exactly(tmp_path: Path, written: list[Any]) -> None:
    writer = RecordWriter.create(tmp_path / "run", {}, never)
    writer.parameters(["a", "b"], [1, 1], ["x", "y", "z"])
    for number, values, matrix in written:
        writer.step({"step": number, **values}, matrix)
    writer.end({})
    record = Record.open(writer.directory)
    assert record.steps.tolist() == [number for number, _, _ in written]
    for row, (number, values, matrix) in zip(record.rows(), written, strict=True):
        assert repr(row.scalars) == repr({"step": number, **values})
        assert (row.matrix is None) == (matrix is None)
        assert matrix is None or (row.matrix is not None and same(row.matrix, matrix))
    for name in record.scalar_names:
        expected = [_float(values.get(name, NAN)) for _, values, _ in written]
        assert same(record.series(name), expected)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def test_a_nan_keeps_its_bits_in_the_matrix(tmp_path: Path) -> None:
    odd = np.array([[0x7FF4000000000001, 0xFFF8000000000002]], dtype=np.uint64).view(np.float64)
    writer = RecordWriter.create(tmp_path, {}, never)
    writer.parameters(["a"], [1], ["x", "y"])
    writer.step({}, odd)
    (row,) = Record.open(tmp_path).rows()
    assert row.matrix is not None
    assert row.matrix.tobytes() == odd.tobytes()


MEASURE = r"""
import re, sys
from pathlib import Path
from lossleuth.record.read import Record
import numpy as np
def peak():
    # Not ru_maxrss: that begins with the size of the process that started this one.
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
before = peak()
record = Record.open(sys.argv[1])
total = 0.0
for name in record.scalar_names:
    total += record.series(name).sum()
for parameter in record.parameter_names[::10]:
    total += record.parameter_series(parameter, "c15").sum()
assert record.matrix("c0").shape == (len(record), 50)
print(len(record), total, before, peak())
"""


def measured(directory: Path, steps: int) -> tuple[int, float, float, float]:
    """Write a long record, read all its series in another process: steps, sum, memory in MB."""
    writer = RecordWriter.create(directory, {}, never)
    writer.parameters([f"p{i}" for i in range(50)], [1] * 50, [f"c{i}" for i in range(16)])
    matrix = np.ones((50, 16))
    for step in range(steps):
        writer.step({"step": step, "loss": 1.0, "lr": 2.0}, matrix)
    writer.end({})
    assert writer.trouble is None
    result = run_script(MEASURE, directory)
    assert result.returncode == 0, result.stderr
    count, total, before, peak = map(float, result.stdout.split())
    (directory / "record.log").unlink()
    return int(count), total, before, peak


def test_reading_keeps_little_in_memory(tmp_path: Path) -> None:
    """128 MB of log; the largest array asked for has 8 MB."""
    count, total, before, peak = measured(tmp_path, 20_000)
    assert (count, total) == (20_000, 20_000 * (1 + 2 + 5))
    assert peak - before < 64


@pytest.mark.slow
def test_reading_a_hundred_thousand_steps_stays_below_300_mb(tmp_path: Path) -> None:
    """640 MB of log."""
    count, total, _, peak = measured(tmp_path, 100_000)
    assert (count, total) == (100_000, 100_000 * (1 + 2 + 5))
    assert peak < 300
