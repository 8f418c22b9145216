"""One writer for each log."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from recorded import run_script, started, write_small

from lossleuth.record import claim as claiming
from lossleuth.record import frames
from lossleuth.record.claim import claim, is_held
from lossleuth.run_directory import RECORD
from lossleuth.types.errors import BadInput

HOLD = """
import sys
from pathlib import Path
from lossleuth.record.claim import claim
directory, descriptor = claim(Path(sys.argv[1]))
print(directory, flush=True)
sys.stdin.read()
"""


def claimed(directory: Path) -> Path:
    found, descriptor = claim(directory)
    os.close(descriptor)
    return found


def test_the_second_of_two_living_writers_gets_the_next_name(tmp_path: Path) -> None:
    with started(HOLD, tmp_path / "run") as first:
        assert first.line() == str(tmp_path / "run")
        with started(HOLD, tmp_path / "run") as second:
            assert second.line() == str(tmp_path / "run-2")
            assert claimed(tmp_path / "run") == tmp_path / "run-3"


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    with started(HOLD, tmp_path / "run") as process:
        assert process.line() == str(tmp_path / "run")
        process.kill()
    assert (tmp_path / "run" / RECORD).exists()
    assert claimed(tmp_path / "run") == tmp_path / "run"


@pytest.mark.parametrize("end", [True, False])
def test_a_record_is_never_overwritten(tmp_path: Path, end: bool) -> None:
    write_small(tmp_path / "run", end=end).close()
    before = (tmp_path / "run" / RECORD).read_bytes()
    assert claimed(tmp_path / "run") == tmp_path / "run-2"
    assert (tmp_path / "run" / RECORD).read_bytes() == before


HEADER = frames.encode(frames.Kind.HEADER, b'{"script":"train.py"}')


@pytest.mark.parametrize(
    ("remains", "taken_over"),
    [
        (b"", True),
        (frames.OPENING[:5], True),
        (frames.OPENING, True),
        (frames.OPENING + HEADER[:-1], True),
        (frames.OPENING + HEADER, False),
        (b"somebody's notes", False),
        (frames.OPENING + b"damaged" * 9, False),
        (bytes(100), False),
    ],
)
def test_only_remains_without_a_record_are_taken_over(
    tmp_path: Path, remains: bytes, taken_over: bool
) -> None:
    (tmp_path / RECORD).write_bytes(remains)
    found = claimed(tmp_path)
    assert (found == tmp_path) == taken_over
    assert (tmp_path / RECORD).read_bytes() == (b"" if taken_over else remains)


@pytest.mark.parametrize("kind", ["directory", "pipe", "link"])
def test_something_else_in_the_place_of_the_log_is_left_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run" / RECORD
    path.parent.mkdir()
    (tmp_path / "elsewhere").touch()
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "elsewhere")
    before = path.lstat()
    assert claimed(tmp_path / "run") == tmp_path / "run-2"
    assert os.path.samestat(before, path.lstat())


def test_other_files_in_the_directory_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").touch()
    assert claimed(tmp_path) == tmp_path


def test_the_working_directory_has_a_next_name_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_small(Path())
    assert claimed(Path()) == tmp_path / "here-2"


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(BadInput, match="File exists"):
        claim(tmp_path / "run")


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="File name too long"):
        claim(tmp_path / ("x" * 300))


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv (util-linux)")
def test_a_read_only_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    # Root may write anywhere unless it gives that right away.
    away = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()
    result = run_script(HOLD, tmp_path / "closed" / "run", before=away)
    assert result.returncode == 1
    assert "BadInput: expected a directory that can be written to" in result.stderr
    assert "closed/run: Permission denied" in result.stderr


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv (util-linux)")
def test_the_log_of_another_user_is_left_alone(tmp_path: Path) -> None:
    write_small(tmp_path / "run")
    (tmp_path / "run" / RECORD).chmod(0o400)
    away = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()
    result = run_script(HOLD, tmp_path / "run", before=away)
    assert result.stdout.strip() == str(tmp_path / "run-2"), result.stderr


def test_too_many_runs_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "_MAX_RUNS", 2)
    write_small(tmp_path / "run")
    write_small(tmp_path / "run")
    with pytest.raises(BadInput, match="2 runs called"):
        claim(tmp_path / "run")


def test_a_log_is_held_while_its_writer_lives(tmp_path: Path) -> None:
    writer = write_small(tmp_path / "run", end=False)
    descriptor = os.open(writer.directory / RECORD, os.O_RDONLY)
    try:
        assert is_held(descriptor)
        writer.close()
        assert not is_held(descriptor)
    finally:
        os.close(descriptor)
