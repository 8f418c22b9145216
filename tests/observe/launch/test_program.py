"""Programs and their endings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lossleuth.observe.launch.program import ENDING, Ending, Program, git_state, save_ending
from lossleuth.types.errors import BadInput


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "no file at"),
        (b"def f(:\n", "cannot parse at line 1"),
        (b"\xff\xfe\x00\x01", "cannot parse"),
        (b"x = '\x00'", "cannot parse"),
    ],
)
def test_what_is_no_script_is_refused(tmp_path: Path, content: bytes | None, found: str) -> None:
    path = tmp_path / "train.py"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=found):
        Program(path).check()


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a directory at"):
        Program(tmp_path).check()


def test_the_header_tells_script_arguments_and_git_state(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    program = Program(tmp_path / "train.py", ("--lr", "1"))
    program.check()
    assert program.header()["arguments"] == ["--lr", "1"]
    assert git_state(tmp_path) is None
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    state = git_state(tmp_path)
    assert state is not None
    assert len(state["commit"]) == 40
    assert state["changed"] is False
    (tmp_path / "train.py").write_text("x = 2\n")
    assert git_state(tmp_path) == state | {"changed": True}


def test_an_ending_is_saved_in_words_and_numbers(tmp_path: Path) -> None:
    ending = Ending(code=3, signal=None, seconds=1.5)
    save_ending(tmp_path, ending)
    assert (tmp_path / ENDING).read_text() == '{"code": 3, "signal": null, "seconds": 1.5}'
    assert ending.sentence == "ended with exit code 3"


def test_an_ending_that_cannot_be_saved_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_ending(tmp_path / "gone", Ending(0, None, 1.0))
    assert "could not save" in capsys.readouterr().err
