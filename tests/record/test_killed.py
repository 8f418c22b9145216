"""R1: a process killed at any moment loses nothing that it acknowledged."""

from __future__ import annotations

from pathlib import Path

from recorded import run_script, strict

TRIALS = 200

# In a small process, because a fork of one with torch in it takes long.
KILL = """
import json, os, random, signal, struct, sys, time
from pathlib import Path
import numpy as np
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter
from lossleuth.types.errors import BadInput

folder, trials = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(0)

def matrix(step, rows):
    found = np.arange(rows * 2, dtype=np.float64).reshape(rows, 2) / (step + 1)
    found[step % rows, 0] = (np.nan, -0.0, np.inf, 5e-324)[step % 4]
    return found

def train(directory, rows, pipe):
    writer = RecordWriter.create(directory, {"rows": rows}, print)
    writer.parameters([f"p{i}" for i in range(rows)], [1] * rows, ["a", "b"])
    step = 0
    while True:
        writer.step({"step": step, "loss": 1 / (step + 3)}, matrix(step, rows))
        os.write(pipe, struct.pack("<q", step))
        step += 1

def acknowledged(pipe):
    data = b""
    while piece := os.read(pipe, 1 << 16):
        data += piece
    return len(data) // 8

results = []
for trial in range(trials):
    # Ten runs want each name, so that the next run meets what a killed one left.
    wanted = folder / f"run{trial // 10}"
    rows = chance.choice((4, 4, 5_000))
    mine, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(mine)
        train(wanted, rows, theirs)
    os.close(theirs)
    time.sleep(chance.uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    known = acknowledged(mine)
    os.close(mine)
    fault, torn = None, False
    # A run killed before its header leaves its name to the next one.
    names = [wanted] + [folder / f"{wanted.name}-{i}" for i in range(2, 12)]
    newest = [n for n in names if n.exists()]
    if not newest:
        fault = "acknowledged without a directory" if known else None
    else:
        try:
            record = Record.open(newest[-1])
        except BadInput as refusal:
            fault = f"{known} steps lost: {refusal}" if known else None
        else:
            torn = record.problem is not None
            at = f"at step {len(record) - 1}" if len(record) else "before the first step"
            if len(record) < known:
                fault = f"{known} acknowledged, {len(record)} read"
            elif record.steps.tolist() != list(range(len(record))):
                fault = "steps out of order"
            elif record.state != f"ended abnormally {at}":
                fault = record.state
            elif torn and "in the middle of a frame" not in record.problem:
                fault = record.problem
            else:
                size = record.header["rows"]
                for row in record.rows():
                    exact = matrix(row.step, size).tobytes() == row.matrix.tobytes()
                    if not exact or row.scalars["loss"] != 1 / (row.step + 3):
                        fault = f"wrong numbers in step {row.step}"
            record.close()
    results.append({"known": known, "fault": fault, "torn": torn})
print(json.dumps(results))
"""


def test_a_run_killed_200_times_loses_no_acknowledged_step(tmp_path: Path) -> None:
    result = run_script(KILL, tmp_path, str(TRIALS))
    assert result.returncode == 0, result.stderr
    results = strict(result.stdout)
    assert [r["fault"] for r in results if r["fault"]] == []
    assert len(results) == TRIALS
    # The kills fell where it matters: among the steps, not only before them.
    assert sum(r["known"] > 0 for r in results) > TRIALS // 3
    assert sum(r["known"] for r in results) > TRIALS


def test_the_next_run_has_its_own_directory(tmp_path: Path) -> None:
    result = run_script(KILL, tmp_path, "10")
    assert result.returncode == 0, result.stderr
    known = [r["known"] for r in strict(result.stdout)]
    # Every run that acknowledged a step kept its record, whatever came after it.
    assert len(list(tmp_path.glob("run0*/record.log"))) >= sum(k > 0 for k in known)
