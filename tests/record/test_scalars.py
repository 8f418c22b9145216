"""Series of scalars within a budget of memory."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from recorded import never, same

from lossleuth.record import frames, payloads
from lossleuth.record.frames import Kind
from lossleuth.record.log import Log
from lossleuth.record.scalars import Scalars, decoded
from lossleuth.record.write import RecordWriter
from lossleuth.types.errors import BadInput

NAMES = [f"s{i}" for i in range(10)]


def value(name: str, step: int) -> float:
    return float(int(name[1:]) * 1000 + step)


@pytest.fixture
def writer(tmp_path: Path) -> RecordWriter:
    return RecordWriter.create(tmp_path, {}, never)


def write(writer: RecordWriter, steps: range) -> None:
    for step in steps:
        # Each name is absent from every third step.
        present = [name for i, name in enumerate(NAMES) if (step + i) % 3]
        writer.step({"step": step, **{name: value(name, step) for name in present}}, None)


def expected(name: str, steps: int) -> list[float]:
    i = NAMES.index(name)
    return [value(name, n) if (n + i) % 3 else math.nan for n in range(steps)]


@pytest.mark.parametrize("budget", [0, 12 * 50, 12 * 100, 12 * 450, 1 << 20])
def test_the_budget_of_memory_changes_no_number(
    writer: RecordWriter, tmp_path: Path, budget: int
) -> None:
    write(writer, range(60))
    log = Log(tmp_path)
    scalars = Scalars(log, budget)
    for name in (*NAMES, *reversed(NAMES)):
        assert same(scalars.series(name), expected(name, 60))
    write(writer, range(60, 90))
    log.refresh()
    for name in NAMES:
        assert same(scalars.series(name), expected(name, 90))


def test_the_budget_is_kept(writer: RecordWriter, tmp_path: Path) -> None:
    write(writer, range(60))
    scalars = Scalars(Log(tmp_path), 12 * 100)
    for name in NAMES:
        scalars.series(name)
        held = sum(len(column.at) for column in scalars._kept.values())
        assert held == scalars._count <= 100


def test_one_pass_serves_all_names_that_fit(
    writer: RecordWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(writer, range(30))
    log = Log(tmp_path)
    scalars = Scalars(log)
    reads: list[int] = []
    real = log.scalars

    def counting(index: int) -> bytes:
        reads.append(index)
        return real(index)

    monkeypatch.setattr(log, "scalars", counting)
    for name in NAMES:
        scalars.series(name)
    assert reads == list(range(30))


def test_a_name_that_appears_later_is_found_and_starts_with_nan(
    writer: RecordWriter, tmp_path: Path
) -> None:
    writer.step({"loss": 1.0}, None)
    log = Log(tmp_path)
    scalars = Scalars(log)
    assert scalars.names() == ["loss"]
    with pytest.raises(BadInput, match="there are 'loss'"):
        scalars.series("late")
    writer.step({"late": 2.0}, None)
    log.refresh()
    assert same(scalars.series("late"), [math.nan, 2.0])
    assert scalars.names() == ["loss", "late"]


def test_what_is_no_number_is_nan(writer: RecordWriter, tmp_path: Path) -> None:
    for odd in ([1.0], "text", None, True, 3, math.inf, {"a": 1}):
        writer.step({"odd": odd}, None)
    nan = math.nan
    assert same(Scalars(Log(tmp_path)).series("odd"), [nan, nan, nan, 1.0, 3.0, math.inf, nan])


def test_a_hundred_thousand_names_work(writer: RecordWriter, tmp_path: Path) -> None:
    for step in range(2):
        writer.step({f"metric/{i}": i + step for i in range(10**5)}, None)
    scalars = Scalars(Log(tmp_path))
    assert len(scalars.names()) == 10**5
    assert same(scalars.series("metric/99999"), [99999.0, 100000.0])
    assert writer.lost == 0


def test_names_that_each_appear_once_stay_small(writer: RecordWriter, tmp_path: Path) -> None:
    for step in range(2000):
        writer.step({f"only at {step}": 1.0}, None)
    scalars = Scalars(Log(tmp_path))
    assert scalars.series("only at 1999")[-1] == 1.0
    assert scalars._count == 2000


def test_a_name_of_a_million_characters_works(writer: RecordWriter, tmp_path: Path) -> None:
    name = "n" * 10**6
    writer.step({name: 1.5}, None)
    assert same(Scalars(Log(tmp_path)).series(name), [1.5])


@pytest.mark.parametrize("json", [b"[]", b"{", b"\xff", b"NaN"])
def test_foreign_scalars_are_refused_by_step(tmp_path: Path, json: bytes) -> None:
    parts = payloads.step_parts(7, json, b"")
    (tmp_path / "log").write_bytes(
        frames.OPENING + frames.encode(Kind.HEADER, b"{}") + frames.encode(Kind.STEP, *parts)
    )
    with pytest.raises(BadInput, match="not so in step 7"):
        decoded(Log(tmp_path / "log"), 0)
