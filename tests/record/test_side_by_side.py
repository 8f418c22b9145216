"""R6: one writer, many readers, and copies taken while it writes."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from recorded import started

from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter
from lossleuth.run_directory import RECORD

WRITE = """
import select, sys
from pathlib import Path
import numpy as np
from lossleuth.record.write import RecordWriter
writer = RecordWriter.create(Path(sys.argv[1]), {}, print)
writer.parameters([f"p{i}" for i in range(40)], [1] * 40, ["a", "b"])
print("started", flush=True)
step = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    writer.step({"step": step, "loss": step / 7}, np.full((40, 2), float(step)))
    step += 1
writer.end({"steps": step})
print(step, writer.trouble, flush=True)
"""

FOLLOW = """
import sys
import numpy as np
from lossleuth.record.read import Record
record = Record.open(sys.argv[1])
print("started", flush=True)
looks = 0
while True:
    record.refresh()
    count = len(record)
    assert record.problem is None, record.problem
    assert record.state in ("running", "ended"), record.state
    assert (record.steps == np.arange(count)).all()
    if count:
        assert (record.series("loss") == np.arange(count) / 7).all()
        last = record.matrix("b", slice(-20, None))
        assert (last == record.steps[-20:, None]).all()
    looks += 1
    if looks == 3:
        print("looked", flush=True)
    if record.state == "ended":
        break
print(count, flush=True)
"""


ASK = """
import sys
from lossleuth.record.read import Record
from lossleuth.types.errors import BadInput
print("asking", flush=True)
while True:
    try:
        Record.open(sys.argv[1]).close()
    except BadInput:
        pass
"""


def assert_grows(path: Path) -> None:
    before, deadline = path.stat().st_size, time.monotonic() + 10
    while path.stat().st_size < before + 100_000:
        assert time.monotonic() < deadline, "the writer waits"
        time.sleep(0.01)


@pytest.mark.skipif(not shutil.which("cp"), reason="needs cp")
def test_readers_and_copies_see_whole_steps_and_hold_nobody_up(tmp_path: Path) -> None:
    run = tmp_path / "run"
    copies = [tmp_path / f"copy{number}" for number in range(10)]
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(started(WRITE, run))
        assert writer.line() == "started"
        readers = [stack.enter_context(started(FOLLOW, run)) for _ in range(4)]
        assert [reader.line() for reader in readers] == ["started"] * 4
        for copy in copies:
            subprocess.run(["cp", "-r", run, copy], check=True)
            assert_grows(run / RECORD)
        assert [reader.line() for reader in readers] == ["looked"] * 4
        for reader in readers:
            reader.kill(signal.SIGSTOP)
        assert_grows(run / RECORD)
        for reader in readers:
            reader.kill(signal.SIGCONT)
        steps, trouble = writer.finish("stop\n").split()
        assert trouble == "None"
        for reader in readers:
            assert reader.finish().split() == [steps]

    grown = []
    for copy in copies:
        record = Record.open(copy)
        assert "damaged" not in str(record.problem)
        assert (record.steps == np.arange(len(record))).all()
        assert (record.matrix("a") == record.steps[:, None]).all()
        assert record.state == f"ended abnormally at step {len(record) - 1}"
        grown.append(len(record))
    assert grown == sorted(grown)
    assert grown[-1] > grown[0]
    assert Record.open(run).ended == {"steps": int(steps)}


def test_a_reader_that_asks_all_the_time_turns_no_writer_away(tmp_path: Path) -> None:
    """The lock is asked about only where a header stands, so never before a writer has it."""
    with started(ASK, tmp_path / "run") as asking:
        assert asking.line() == "asking"
        for _ in range(200):
            writer = RecordWriter.create(tmp_path / "run", {}, print)
            assert writer.directory == tmp_path / "run"
            writer.close()
            (tmp_path / "run" / RECORD).unlink()
