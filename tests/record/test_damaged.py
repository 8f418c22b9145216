"""R2: whatever happens to the bytes of a log, no wrong value is read from it."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorded import never

from lossleuth.record import frames
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter
from lossleuth.run_directory import RECORD
from lossleuth.types.errors import BadInput

OPENING = len(frames.OPENING)


@pytest.fixture
def log(tmp_path: Path) -> bytes:
    """One frame of each kind and a step more: small, because every bit of it is flipped."""
    writer = RecordWriter.create(tmp_path / "run", {"seed": 1}, never)
    writer.parameters(["w"], [4], ["n"])
    writer.step({"step": 0, "loss": 2.5}, np.array([[0.5]]))
    writer.event("tick", {"a": math.inf})
    writer.step({"step": 1, "loss": math.nan}, None)
    writer.end({"exit": 0})
    return (tmp_path / "run" / RECORD).read_bytes()


def contents(record: Record) -> list[str]:
    """All that a record says, frame by frame, to the last bit of each number."""
    said = [f"header {record.header}"]
    for entry in record.entries():
        matrix = getattr(entry, "matrix", None)
        said.append(f"{entry} {None if matrix is None else matrix.tobytes().hex()}")
    if record.ended is not None:
        said.append(f"end {record.ended}")
    return said


def read(path: Path, data: bytes) -> Record:
    path.write_bytes(data)
    return Record.open(path)


def starts(log: bytes) -> list[int]:
    """Where each frame starts, and where the last one ends."""
    return [*(OPENING + f.start for f in frames.scan(log[OPENING:]).frames), len(log)]


def test_a_log_cut_at_any_byte_gives_its_whole_frames(log: bytes, tmp_path: Path) -> None:
    whole = contents(read(tmp_path / "log", log))
    at = starts(log)
    for size in range(len(log)):
        complete = sum(end <= size for end in at[1:])
        if complete == 0:
            with pytest.raises(BadInput):
                read(tmp_path / "log", log[:size])
            continue
        record = read(tmp_path / "log", log[:size])
        assert contents(record) == whole[:complete]
        assert record.state.startswith("ended abnormally")
        expected = f"the log ends in the middle of a frame at byte {at[complete]}"
        assert record.problem == (None if size in at else expected)


def test_any_flipped_bit_ends_the_log_before_its_frame(log: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = contents(read(path, log))
    at = starts(log)
    with path.open("r+b", buffering=0) as stream:
        for bit in range(8 * len(log)):
            byte = bit // 8
            os.pwrite(stream.fileno(), bytes([log[byte] ^ 1 << bit % 8]), byte)
            frame = sum(start <= byte for start in at) - 1
            if frame < 1:
                with pytest.raises(BadInput) as caught:
                    Record.open(path)
                assert frame < 0 or f"damaged at byte {OPENING}" in str(caught.value)
            else:
                record = Record.open(path)
                assert contents(record) == whole[:frame]
                assert str(record.problem).startswith(f"the log is damaged at byte {at[frame]}: ")
            os.pwrite(stream.fileno(), log[byte : byte + 1], byte)
    assert contents(Record.open(path)) == whole


@given(st.data())
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes_in_any_place_are_survived(
    log: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    whole = contents(read(tmp_path / "log", log))
    begin = data.draw(st.integers(0, len(log)))
    end = data.draw(st.integers(begin, len(log)))
    changed = log[:begin] + data.draw(st.binary(max_size=60)) + log[end:]
    try:
        record = read(tmp_path / "log", changed)
    except BadInput:
        return
    said = contents(record)
    # Dropping exactly whole frames leaves a log that is valid, only shorter.
    assert all(line in whole for line in said)
    intact = sum(start <= begin for start in starts(log)[1:])
    assert said[:intact] == whole[:intact]
