"""The index of a log: what is whole is entered, the first thing that is not ends it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from recorded import write_small

from lossleuth.record import frames, log, payloads
from lossleuth.record.frames import Kind
from lossleuth.record.log import Log
from lossleuth.run_directory import RECORD
from lossleuth.types.errors import BadInput

HEADER = frames.encode(Kind.HEADER, b"{}")
TABLE = frames.encode(Kind.PARAMETERS, b'{"names":["a"],"sizes":[1],"columns":["c"]}')


def step(number: int, matrix: bytes = b"") -> bytes:
    return frames.encode(Kind.STEP, *payloads.step_parts(number, b"{}", matrix))


def made(path: Path, *parts: bytes) -> Log:
    path.write_bytes(frames.OPENING + b"".join(parts))
    return Log(path)


def test_a_directory_means_the_log_in_it(tmp_path: Path) -> None:
    write_small(tmp_path)
    assert list(Log(tmp_path).steps) == list(Log(tmp_path / RECORD).steps) == [0, 1, 1, -3]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "it is empty"),
        (b"hello", "it begins otherwise"),
        (b"PK\x03\x04" + bytes(50), "it begins otherwise"),
        (frames.OPENING[:9], "it begins otherwise"),
        (frames.MAGIC + b"\x07\x00" + HEADER, "it is of version 7"),
        (frames.OPENING, "it ends before the header"),
        (frames.OPENING + HEADER[:-1], "the log ends in the middle of a frame at byte 16"),
        (frames.OPENING + b"x" * 30, "the log is damaged at byte 16: the head of a frame"),
        (frames.OPENING + step(0), "at byte 16: a log has one header, and begins with it"),
        (frames.OPENING + frames.encode(Kind.HEADER, b"[]"), "a JSON object was expected"),
    ],
)
def test_what_is_no_record_is_refused_by_name(tmp_path: Path, content: bytes, found: str) -> None:
    (tmp_path / RECORD).write_bytes(content)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(BadInput) as caught:
        Log(tmp_path / RECORD)
    assert found in str(caught.value)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def test_paths_without_a_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, found in [
        (tmp_path, "No such file"),
        (tmp_path / "absent", "No such file"),
        (tmp_path / "loop", "symbolic links"),
        (tmp_path / "pipe", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (Path("a\0b"), "null byte"),
    ]:
        with pytest.raises(BadInput, match=found):
            Log(path)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (step(1, bytes(16)), "a matrix is not of the declared size"),
        (step(1, b"x"), "a matrix is not of the declared size"),
        (frames.encode(Kind.STEP, b"short"), "a step without its number"),
        (frames.encode(Kind.STEP, step(1)[9:-6]), "a step shorter than its scalars"),
        (frames.encode(Kind.PARAMETERS, b"{}"), "a table of parameters without"),
        (frames.encode(Kind.EVENT, b"{}"), "an event without its kind or data"),
        (frames.encode(Kind.EVENT, b'{"kind":"a","data":1}'), "an event without"),
        (frames.encode(Kind.END, b"?"), "Expecting value"),
        (frames.encode(Kind.END, b"[" * 10**6), "JSON nested too deeply"),
        (HEADER, "a log has one header"),
    ],
)
def test_a_whole_frame_that_makes_no_sense_ends_the_log(
    tmp_path: Path, frame: bytes, reason: str
) -> None:
    before = [HEADER, TABLE, step(0, bytes(8))]
    found = made(tmp_path / "log", *before, frame, step(2))
    assert list(found.steps) == [0]
    at = len(frames.OPENING) + len(b"".join(before))
    assert str(found.problem).startswith(f"the log is damaged at byte {at}: {reason}")


def test_a_matrix_before_any_table_ends_the_log(tmp_path: Path) -> None:
    found = made(tmp_path / "log", HEADER, step(0, bytes(8)))
    assert "a matrix is not of the declared size" in str(found.problem)


@pytest.mark.parametrize("chunk", [1, 7, 13, 64, 1 << 22])
def test_the_size_of_the_pieces_read_makes_no_difference(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small(tmp_path)
    expected = Log(tmp_path)
    monkeypatch.setattr(log, "_CHUNK", chunk)
    found = Log(tmp_path)
    assert (found.steps, found.others, found.tables) == (
        expected.steps,
        expected.others,
        expected.tables,
    )
    assert (found.ended, found.problem) == ({"exit": 0}, None)


def test_a_log_that_grows_byte_by_byte_is_followed(tmp_path: Path) -> None:
    write_small(tmp_path)
    data = (tmp_path / RECORD).read_bytes()
    scan = frames.scan(data[16:])
    ends = [*(16 + frame.start for frame in scan.frames[1:]), len(data)]
    path = tmp_path / "growing"
    path.write_bytes(data[: ends[0]])
    found = Log(path)
    for size in range(ends[0] + 1, len(data) + 1):
        with path.open("ab") as stream:
            stream.write(data[size - 1 : size])
        found.refresh()
        whole = sum(end <= size for end in ends)
        assert len(found.steps) + len(found.others) == whole
        assert (found.problem is None) == (size in ends)
    assert found.ended == {"exit": 0}


def test_a_torn_frame_that_its_writer_replaced_is_read_again(tmp_path: Path) -> None:
    torn, after = step(1), step(2)
    found = made(tmp_path / "log", HEADER, step(0), torn[:-3])
    assert str(found.problem).startswith("the log ends in the middle of a frame at byte ")
    whole = (tmp_path / "log").stat().st_size - len(torn) + 3
    os.truncate(tmp_path / "log", whole)
    with (tmp_path / "log").open("ab") as stream:
        stream.write(after)
    found.refresh()
    assert (list(found.steps), found.problem) == ([0, 2], None)


def test_a_log_cut_below_what_was_read_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    write_small(tmp_path)
    found = Log(tmp_path)
    os.truncate(tmp_path / RECORD, 40)
    found.refresh()
    assert str(found.problem).startswith("the log was cut to 40 bytes after ")
    with pytest.raises(BadInput, match="it was cut short at byte"):
        found.scalars(0)


def test_a_frame_being_written_is_no_problem_while_its_writer_lives(tmp_path: Path) -> None:
    writer = write_small(tmp_path, end=False)
    with (tmp_path / RECORD).open("ab") as stream:
        stream.write(step(9)[:-2])
    found = Log(tmp_path)
    assert (found.held, found.problem) == (True, None)
    writer.close()
    found.refresh()
    assert not found.held
    assert "ends in the middle of a frame" in str(found.problem)


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    write_small(tmp_path)
    found = Log(tmp_path)
    found.close()
    found.close()
    assert found.descriptor == -1
