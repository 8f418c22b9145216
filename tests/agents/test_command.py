"""Commands in their own processes: reported on, limited, ended."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import anyio
import pytest

from lossleuth.agents import command
from lossleuth.agents.command import CommandResult, Refused, end_all, run_command
from lossleuth.types.errors import BadInput


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The server's directory; `program` in the folder beside it is a module of ours."""
    (tmp_path / "root").mkdir()
    (tmp_path / "ours").mkdir()
    paths = [str(tmp_path / "ours"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    return tmp_path / "root"


def ran(
    root: Path, program: str, limit: float = 30, grace: float = 0.2
) -> tuple[CommandResult, list[str]]:
    """Run a program as a command: its result, and the progress it reported."""
    said: list[str] = []

    async def report(sentence: str) -> None:
        said.append(sentence)

    async def run() -> CommandResult:
        return await run_command(
            "program", [], root=root, limit=limit, report_progress=report, grace=grace
        )

    (root.parent / "ours" / "program.py").write_text(program)
    return anyio.run(run), said


def test_stdout_and_progress_come_back_apart(root: Path) -> None:
    program = (
        "import sys, time\n"
        "print('{\"a\": 1}')\n"
        "for i in range(2):\n"
        '    print(\'{"progress": "step %d", "seconds": 0}\' % i, file=sys.stderr, flush=True)\n'
        "    time.sleep(0.3)\n"
        "print('done', file=sys.stderr)\n"
        "sys.exit(1)\n"
    )
    done, said = ran(root, program)
    assert (done.code, done.answer) == (1, {"a": 1})
    assert said == ["step 0", "step 1"]


def test_silence_is_filled_with_the_last_sentence(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "HEARTBEAT_SECONDS", 0.2)
    program = (
        "import sys, time\n"
        'print(\'{"progress": "training"}\', file=sys.stderr, flush=True)\n'
        "time.sleep(1.2)\n"
    )
    _, said = ran(root, program)
    assert said.count("training") >= 3


def test_at_its_limit_it_is_ended_and_says_so(root: Path) -> None:
    program = (
        "import os, signal, time\nsignal.signal(2, signal.SIG_IGN)\n"
        "open('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    began = time.monotonic()
    with pytest.raises(BadInput, match="an answer within 3 s, found none, so it was ended"):
        ran(root, program, limit=3)
    assert time.monotonic() - began < 20
    assert not command._running
    with pytest.raises(ProcessLookupError):
        os.kill(int((root / "pid").read_text()), 0)


def test_too_much_output_ends_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MAX_OUTPUT_BYTES", 1 << 20)
    program = "while True:\n    print('x' * 1000)\n"
    with pytest.raises(BadInput, match="more than 1 MB of output"):
        ran(root, program)


def test_a_cancelled_command_leaves_no_process(root: Path) -> None:
    program = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    (root.parent / "ours" / "program.py").write_text(program)

    async def report(sentence: str) -> None:
        pass

    async def run() -> bool:
        with anyio.move_on_after(1.5) as scope:
            await run_command("program", [], root=root, limit=60, report_progress=report)
        return scope.cancelled_caught

    assert anyio.run(run)
    assert not command._running
    with pytest.raises(ProcessLookupError):
        os.kill(int((root / "pid").read_text()), 0)


def test_all_running_commands_are_ended_at_once() -> None:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    command._running.add(process)
    try:
        end_all()
    finally:
        command._running.discard(process)
    assert process.returncode == -2


def test_a_file_called_like_one_of_ours_is_not_imported(root: Path) -> None:
    (root / "json.py").write_text("raise SystemExit('foreign')\n")
    done, _ = ran(root, "import json\nprint(json.dumps('ours'))\n")
    assert (done.code, done.answer) == (0, "ours")


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("noise\nlossleuth: expected a, found b: do c\n", "expected a, found b: do c"),
        ("Traceback\nValueError: x\n", r"found exit code 3 \(ValueError: x\)"),
        ("", "found exit code 3: run it by hand"),
    ],
)
def test_no_answer_has_a_reason(stderr: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        CommandResult(3, b"", stderr).answer  # noqa: B018
