"""Exports: one door, and nothing half written behind it."""

from __future__ import annotations

import importlib.util
import resource
import signal
from pathlib import Path

import pytest
from recorded import run_script, write_small

from lossleuth.record.export import FORMATS, export, format_of
from lossleuth.record.read import Record
from lossleuth.types.errors import BadInput

PACKAGES = {"parquet": "pyarrow", "tensorboard": "tensorboard", "wandb": "wandb"}


@pytest.fixture
def record(tmp_path: Path) -> Record:
    write_small(tmp_path / "run")
    return Record.open(tmp_path / "run")


def test_an_unknown_format_is_refused_with_those_there_are(record: Record, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="expected one of csv, jsonl, parquet, tensorboard, wandb"):
        export(record, "xlsx", tmp_path / "out")


def test_a_name_says_the_format_or_is_refused() -> None:
    assert [format_of(Path(name)) for name in ("a.CSV", "b.parquet", "c")] == [
        *("csv", "parquet", "csv")
    ]
    with pytest.raises(BadInput, match=r"ends with one of \.csv.* found 'a\.xlsx'"):
        format_of(Path("a.xlsx"))


# In a process of its own: some packages start a service that lives as long as theirs.
EXPORT = """
import sys
from pathlib import Path
from lossleuth.record.export import export
from lossleuth.record.read import Record
from lossleuth.types.errors import BadInput
try:
    export(Record.open(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
except BadInput as refusal:
    print(refusal.remedy)
"""


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_a_format_works_or_says_what_to_install(
    record: Record, tmp_path: Path, format: str
) -> None:
    result = run_script(EXPORT, tmp_path / "run", format, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    package = PACKAGES.get(format)
    there = package is None or importlib.util.find_spec(package) is not None
    assert (tmp_path / "out").exists() == there
    assert result.stdout.strip() == ("" if there else f"pip install 'lossleuth[{format}]'")
    assert {path.name for path in tmp_path.iterdir()} <= {"run", "out"}


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    record: Record, tmp_path: Path, format: str
) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(BadInput, match=r"room for the export, found .*: File too large"):
            export(record, format, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert target.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}


def test_a_target_that_cannot_be_is_refused(record: Record, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file or directory"):
        export(record, "csv", tmp_path / "no" / "such" / "folder.csv")
