"""Writing never raises, tears nothing and counts what it loses."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import MATRIX, NAMES, never, same, started

from lossleuth.record import write
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter
from lossleuth.run_directory import RECORD

COLUMNS = ["norm", "gradient"]


@pytest.fixture
def told() -> list[str]:
    """What the writer warned of."""
    return []


@pytest.fixture
def writer(tmp_path: Path, told: list[str]) -> Iterator[RecordWriter]:
    made = RecordWriter.create(tmp_path / "run", {"a": 1}, told.append)
    yield made
    made.close()


@contextlib.contextmanager
def room(log: Path, more: int) -> Iterator[None]:
    """No file may grow by more than this: a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_step_is_on_disk_when_the_call_returns(writer: RecordWriter) -> None:
    writer.step({"step": 4, "loss": 1.0}, None)
    record = Record.open(writer.directory)
    assert record.steps.tolist() == [4]
    writer.step({"step": 5, "loss": 1.0}, None)
    record.refresh()
    assert record.steps.tolist() == [4, 5]


def test_one_frame_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RecordWriter.create(tmp_path / "run", {}, never)
    writer.parameters(NAMES, [1, 1], COLUMNS)
    calls: list[int] = []
    real = os.write

    def counting(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", counting)
    before = (writer.directory / RECORD).stat().st_size
    writer.step({"step": 0, "loss": 1.0}, MATRIX)
    monkeypatch.undo()
    assert calls == [(writer.directory / RECORD).stat().st_size - before]


@pytest.mark.parametrize("more", [0, 1, 8, 9, 40, 200])
def test_a_full_disk_tears_nothing_warns_once_and_recording_resumes(
    writer: RecordWriter, told: list[str], more: int
) -> None:
    log = writer.directory / RECORD
    writer.parameters(NAMES, [1, 1], COLUMNS)
    padding = "x" * 300
    writer.step({"step": 0, "pad": padding}, MATRIX)
    whole = log.stat().st_size
    with room(log, more):
        for number in range(1, 4):
            writer.step({"step": number, "pad": padding}, MATRIX)
            assert log.stat().st_size == whole
    assert writer.lost == 3
    writer.step({"step": 4, "pad": padding}, MATRIX)
    writer.end({})
    record = Record.open(writer.directory)
    assert record.problem is None
    assert record.steps.tolist() == [0, 4]
    assert [(e.kind, e.data, e.steps_before) for e in record.events()] == [
        ("lost", {"frames": 3}, 1)
    ]
    assert len(told) == 1
    assert "misses frames: File too large; training goes on" in told[0]
    assert writer.trouble == (f"the record in {writer.directory} misses 3 frames: File too large")


def test_a_table_lost_to_a_full_disk_is_written_before_the_steps_that_need_it(
    writer: RecordWriter,
) -> None:
    writer.parameters(NAMES, [1, 1], COLUMNS)
    writer.step({"step": 0}, MATRIX)
    with room(writer.directory / RECORD, 0):
        writer.parameters(["a", "b", "c", "d"], [1] * 4, ["wrong"])
        # As many cells as before: by the old table they would read as other numbers.
        writer.parameters(["a"], [1], list("wxyz"))
        writer.step({"step": 1}, np.full((1, 4), 1.0))
    writer.step({"step": 2}, np.array([[1.0, 2.0, 3.0, 4.0]]))
    record = Record.open(writer.directory)
    assert record.steps.tolist() == [0, 2]
    assert same(record.parameter_series("a", "y"), [math.nan, 3.0])
    assert record.parameter_names == [*NAMES, "a"]
    assert writer.lost == 1


def test_a_disk_that_is_full_from_the_beginning_costs_the_beginning_only(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "empty").touch()
    with room(tmp_path / "empty", 0):
        writer = RecordWriter.create(tmp_path / "run", {"script": "a.py"}, told.append)
        writer.step({"step": 0}, None)
    writer.step({"step": 1}, None)
    writer.end({})
    record = Record.open(tmp_path / "run")
    assert record.header == {"script": "a.py"}
    assert record.steps.tolist() == [1]
    assert record.events("lost")[0].data == {"frames": 1}
    assert len(told) == 1


def test_a_deleted_directory_is_told_once_and_in_the_summary(
    writer: RecordWriter, told: list[str]
) -> None:
    writer.step({"step": 0}, None)
    shutil.rmtree(writer.directory)
    time.sleep(1.05)
    for number in range(1, 4):
        writer.step({"step": number}, None)
    writer.end({})
    assert told == [
        f"the record in {writer.directory} was deleted during the run; training goes on"
    ]
    assert writer.lost == 4
    assert writer.trouble == (
        f"the record in {writer.directory} misses 4 frames: was deleted during the run"
    )
    assert not writer.directory.exists()


def test_a_directory_deleted_just_before_the_end_is_told_too(writer: RecordWriter) -> None:
    writer.step({"step": 0}, None)
    shutil.rmtree(writer.directory)
    writer.end({})
    assert "was deleted during the run" in str(writer.trouble)


def test_a_renamed_directory_is_still_written(writer: RecordWriter, tmp_path: Path) -> None:
    writer.step({"step": 0}, None)
    writer.directory.rename(tmp_path / "moved")
    writer.step({"step": 1}, None)
    writer.end({})
    assert Record.open(tmp_path / "moved").steps.tolist() == [0, 1]
    assert writer.trouble is None


def test_a_log_cut_by_another_program_is_told(writer: RecordWriter, told: list[str]) -> None:
    writer.step({"step": 0}, None)
    os.truncate(writer.directory / RECORD, 30)
    writer.end({})
    assert len(told) == 1
    assert "was cut short by another program" in told[0]
    assert (writer.directory / RECORD).stat().st_size == 30


def test_foreign_bytes_at_the_end_do_not_spoil_what_follows(writer: RecordWriter) -> None:
    writer.step({"step": 0}, None)
    with (writer.directory / RECORD).open("ab") as stream:
        stream.write(b"somebody's")
    writer.end({"exit": 0})
    record = Record.open(writer.directory)
    assert (record.steps.tolist(), record.ended, record.problem) == ([0], {"exit": 0}, None)


class Awkward:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__
    __bool__ = __str__  # type: ignore[assignment]  # nothing about it works


@pytest.mark.parametrize(
    ("scalars", "matrix"),
    [
        (None, None),
        ([1, 2], None),
        ("step", None),
        ({Awkward(): 1}, None),
        (Awkward(), Awkward()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_step_that_cannot_be_written_is_counted(
    writer: RecordWriter, told: list[str], scalars: Any, matrix: Any
) -> None:
    writer.step(scalars, matrix)
    writer.step(scalars, matrix)
    writer.step({"step": 7}, None)
    assert writer.lost == 2
    assert len(told) == 1
    record = Record.open(writer.directory)
    assert record.steps.tolist() == [7]
    assert record.events("lost")[0].data == {"frames": 2}


def test_steps_written_in_one_go_are_those_written_one_by_one(
    writer: RecordWriter, tmp_path: Path
) -> None:
    steps = [({"step": n, "loss": n / 3}, None) for n in range(4)]
    writer.steps(steps)
    alone = RecordWriter.create(tmp_path / "alone", {}, warn=print)
    for scalars, matrix in steps:
        alone.step(scalars, matrix)
    together, apart = Record.open(writer.directory), Record.open(alone.directory)
    assert together.steps.tolist() == apart.steps.tolist() == [0, 1, 2, 3]
    assert together.series("loss").tolist() == apart.series("loss").tolist()


def test_a_bad_one_among_several_does_not_take_the_others_with_it(
    writer: RecordWriter, told: list[str]
) -> None:
    writer.steps([({"step": 1}, None), (["no mapping"], None), ({"step": 3}, None)])  # type: ignore[list-item]  # on purpose
    assert (writer.lost, len(told)) == (1, 1)
    assert Record.open(writer.directory).steps.tolist() == [1, 3]


def test_several_that_come_after_the_end_are_all_counted(writer: RecordWriter) -> None:
    writer.end({})
    writer.steps([({"step": 1}, None), ({"step": 2}, None)])
    assert writer.lost == 2


@pytest.mark.parametrize(
    "matrix",
    [np.zeros((3, 2)), np.zeros((2, 2), dtype=complex), [[1.0, 2.0]], Awkward(), 3.5],
    ids=lambda value: type(value).__name__,
)
def test_a_wrong_matrix_costs_the_matrix_not_the_step(
    writer: RecordWriter, told: list[str], matrix: Any
) -> None:
    writer.parameters(NAMES, [1, 1], COLUMNS)
    writer.step({"step": 0, "loss": 1.5}, matrix)
    record = Record.open(writer.directory)
    assert same(record.series("loss"), [1.5])
    assert same(record.matrix("norm"), [[math.nan, math.nan]])
    assert (writer.lost, writer.unrecorded, len(told)) == (0, 1, 1)
    assert "misses 1 values, the first: a matrix" in str(writer.trouble)


def test_a_matrix_without_declared_parameters_costs_the_matrix(writer: RecordWriter) -> None:
    writer.step({"step": 0}, np.zeros((0, 0)))
    assert writer.unrecorded == 1
    assert "whose parameters were not declared" in str(writer.trouble)


def test_after_a_table_that_failed_no_matrix_is_read_by_the_one_before(
    writer: RecordWriter,
) -> None:
    writer.parameters(NAMES, [1, 1], COLUMNS)
    writer.parameters(["same", "same"], [1, 1], COLUMNS)
    writer.step({"step": 0}, MATRIX)
    record = Record.open(writer.directory)
    assert same(record.matrix("norm"), [[math.nan, math.nan]])
    assert (writer.lost, writer.unrecorded) == (1, 1)


def test_an_unserialisable_value_costs_that_value(writer: RecordWriter, told: list[str]) -> None:
    writer.step({"step": 0, "loss": 1.5, "odd": object()}, None)
    writer.step({"step": 1, "loss": 2.5, "odd": object()}, None)
    record = Record.open(writer.directory)
    assert same(record.series("loss"), [1.5, 2.5])
    assert record.values("odd") == [{"unrecorded": "object"}] * 2
    assert (writer.lost, writer.unrecorded, len(told)) == (0, 2, 1)
    assert "odd is of type object" in told[0]


def test_every_other_call_with_nonsense_is_counted_too(writer: RecordWriter) -> None:
    nonsense: Any = Awkward()
    writer.parameters(nonsense, nonsense, nonsense)
    writer.parameters(["a", "a"], [1, 1], ["c"])
    writer.event(nonsense, {})
    writer.event("kind", nonsense)
    writer.event("kind", "text")  # type: ignore[arg-type]  # the mistake is the test
    writer.step()  # type: ignore[call-arg]  # the mistake is the test
    assert writer.lost == 6
    writer.end(nonsense)
    assert writer.lost == 7
    assert Record.open(writer.directory).problem is None


def test_a_header_that_cannot_be_written_is_told(tmp_path: Path, told: list[str]) -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    writer = RecordWriter.create(tmp_path / "run", loop, told.append)
    writer.end({})
    assert Record.open(tmp_path / "run").header == {}
    assert "misses values: the header" in told[0]


def test_a_warning_that_fails_stays_here(tmp_path: Path) -> None:
    writer = RecordWriter.create(tmp_path / "run", {}, never)
    writer.step({"odd": object()}, None)
    writer.step("odd", None)  # type: ignore[arg-type]  # the mistake is the test
    writer.end({})
    assert (writer.lost, writer.unrecorded) == (1, 1)


def test_what_comes_after_the_end_is_counted(writer: RecordWriter) -> None:
    writer.end({"exit": 0})
    writer.step({"step": 1}, None)
    writer.end({"exit": 1})
    writer.parameters(["a"], [1], ["c"])
    assert writer.lost == 2
    assert Record.open(writer.directory).ended == {"exit": 0}


def test_a_step_without_a_number_comes_after_the_last(writer: RecordWriter) -> None:
    for step in ({}, {"step": 10}, {"step": "x"}, {"step": 2**70}, {"step": 3}, {}):
        writer.step(step, None)
    record = Record.open(writer.directory)
    assert record.steps.tolist() == [0, 10, 11, 12, 3, 4]
    assert record.values("step") == [None, 10, "x", 2**70, 3, None]


def test_a_frame_over_the_limit_is_refused_clearly(writer: RecordWriter, told: list[str]) -> None:
    names = {f"{i:02}" + "x" * 10**6: 1.0 for i in range(68)}
    writer.step({"step": 0, **names}, None)
    writer.step({"step": 1}, None)
    assert writer.lost == 1
    assert "over the limit of 67108864" in told[0]
    assert Record.open(writer.directory).steps.tolist() == [1]


def test_a_forked_child_writes_nothing(writer: RecordWriter) -> None:
    writer.step({"step": 0}, None)
    before = (writer.directory / RECORD).read_bytes()
    child = os.fork()
    if child == 0:
        writer.parameters(["a"], [1], ["c"])
        writer.step({"step": 1}, None)
        writer.event("kind", {})
        writer.end({})
        os._exit(0 if (writer.lost, writer.trouble) == (0, None) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (writer.directory / RECORD).read_bytes() == before
    writer.step({"step": 2}, None)
    record = Record.open(writer.directory)
    assert (record.state, record.steps.tolist()) == ("running", [0, 2])


ORPHAN = """
import os, sys, time
from pathlib import Path
from lossleuth.record.write import RecordWriter
writer = RecordWriter.create(Path(sys.argv[1]), {}, print)
writer.step({"step": 0}, None)
if os.fork() == 0:
    # By then it runs as a process of its own, and has let go of what it was not to inherit.
    print(os.getpid(), flush=True)
    time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


def test_a_worker_that_outlives_its_parent_does_not_hold_the_log(tmp_path: Path) -> None:
    with started(ORPHAN, tmp_path / "run") as process:
        orphan = int(process.line())
        try:
            record = Record.open(tmp_path / "run")
            assert record.state == "running"
            process.kill()
            os.kill(orphan, 0)
            record.refresh()
            assert record.state == "ended abnormally at step 0"
        finally:
            os.kill(orphan, signal.SIGKILL)


def test_threads_do_not_mix_their_frames(writer: RecordWriter) -> None:
    def work(thread: int) -> None:
        for number in range(300):
            writer.event("tick", {"thread": thread, "number": number})

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record = Record.open(writer.directory)
    assert record.problem is None
    ticks = [(event.data["thread"], event.data["number"]) for event in record.events("tick")]
    assert sorted(ticks) == [(t, n) for t in range(4) for n in range(300)]


def test_threads_on_a_full_disk_lose_frames_but_tear_none(writer: RecordWriter) -> None:
    """Each cuts off what it could not write whole; without a lock it would cut the others'."""
    log = writer.directory / RECORD
    written: list[tuple[int, int]] = []

    def work(thread: int) -> None:
        for number in range(400):
            lost = writer.lost
            writer.event("tick", {"at": [thread, number], "pad": "x" * (number % 7) * 100})
            if writer.lost == lost:
                written.append((thread, number))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    with room(log, 60_000):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    writer.end({})
    record = Record.open(writer.directory)
    assert record.problem is None
    found = [tuple(event.data["at"]) for event in record.events("tick")]
    assert len(found) == len(set(found)) == 1600 - writer.lost > 50
    assert set(written) <= set(found)
    assert sum(event.data["frames"] for event in record.events("lost")) == writer.lost > 50


@contextlib.contextmanager
def alarms(handler: Any) -> Iterator[None]:
    """Call a handler after some hundred microseconds, wherever the program stands."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0004)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("seconds_between_looks", [0.0, 1.0])
def test_a_signal_handler_may_write_while_a_step_is_written(
    writer: RecordWriter, monkeypatch: pytest.MonkeyPatch, seconds_between_looks: float
) -> None:
    monkeypatch.setattr(write, "_SECONDS_BETWEEN_LOOKS", seconds_between_looks)
    fired = [0]

    def handler(number: int, frame: Any) -> None:
        writer.event("signal", {"number": fired[0]})
        fired[0] += 1
        # Only now, so that the handler is not interrupted by itself; and not when it is about to
        # go, since nobody would catch the last alarm.
        if writing:
            signal.setitimer(signal.ITIMER_REAL, 0.0002)

    writing = True
    with alarms(handler):
        for number in range(3000):
            writer.step({"step": number, "loss": 0.5}, None)
        writing = False
    record = Record.open(writer.directory)
    assert record.problem is None
    assert record.steps.tolist() == list(range(3000))
    assert [e.data["number"] for e in record.events("signal")] == list(range(fired[0]))
    assert fired[0] > 20
    assert writer.trouble is None


class Stop(BaseException):
    """As Ctrl-C, from anywhere."""


def test_an_interruption_passes_through_and_leaves_whole_frames(writer: RecordWriter) -> None:
    def handler(number: int, frame: Any) -> None:
        raise Stop

    acknowledged: list[int] = []
    interrupted = 0
    for number in range(2000):
        try:
            with alarms(handler):
                writer.step({"step": number, "loss": 0.5, "pad": "x" * 20_000}, None)
                acknowledged.append(number)
                time.sleep(0.0002 * (number % 3))
        except Stop:
            interrupted += 1
    writer.end({"exit": 0})
    record = Record.open(writer.directory)
    assert (record.problem, record.ended) == (None, {"exit": 0})
    assert set(acknowledged) <= set(record.steps.tolist())
    assert len(set(record.steps.tolist())) == len(record)
    assert interrupted > 20
