"""Weights & Biases: an offline run, whole or not there, with every row in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recorded import run_script, write_small

from lossleuth.record.export_wandb import export_wandb
from lossleuth.record.read import Record
from lossleuth.types.errors import BadInput

# In a process of its own: the package starts a service that lives as long as its process.
EXPORT = """
import sys
from pathlib import Path
from lossleuth.record.export import export
from lossleuth.record.read import Record
export(Record.open(sys.argv[1]), "wandb", Path(sys.argv[2]))
"""

# The file is a log of LevelDB: blocks of 32 kB, records in pieces, after seven bytes of its own.
READ = """
import json, struct, sys
from pathlib import Path
from wandb.proto import wandb_internal_pb2
data, at, record = Path(sys.argv[1]).read_bytes(), 7, b""
while at < len(data):
    left = 32768 - at % 32768
    if left < 7:
        at += left
        continue
    _, length, kind = struct.unpack_from("<IHB", data, at)
    record += data[at + 7 : at + 7 + length]
    at += 7 + length
    if kind in (1, 4):
        found = wandb_internal_pb2.Record()
        found.ParseFromString(record)
        record = b""
        if found.WhichOneof("record_type") == "history":
            items = found.history.item
            print(json.dumps({i.key or "/".join(i.nested_key): i.value_json for i in items}))
"""


def test_every_row_is_in_the_offline_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    write_small(tmp_path / "run")
    result = run_script(EXPORT, tmp_path / "run", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    (log,) = (tmp_path / "out").glob("run-*.wandb")
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}
    read = run_script(READ, log)
    assert read.returncode == 0, read.stderr
    rows = [json.loads(line) for line in read.stdout.splitlines()]
    assert [row["step"] for row in rows] == ["0", "1", "1", "-3"]
    assert rows[0]["loss"] == "2.5"
    assert json.loads(rows[2]["norm/lora"]) == 9.0


def test_a_target_that_is_in_use_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    write_small(tmp_path / "run")
    with pytest.raises(BadInput, match="a directory that is empty or absent"):
        export_wandb(Record.open(tmp_path / "run"), tmp_path / "run")
    assert Record.open(tmp_path / "run").problem is None
