"""A training script as a program: run unchanged in its own process."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from lossleuth.files import replace_file
from lossleuth.observe.request import WatchRequest
from lossleuth.process_tree import start
from lossleuth.record import strict_json
from lossleuth.run_directory import ENDING
from lossleuth.types.errors import BadInput


@dataclass(frozen=True)
class Program:
    """A script and its arguments."""

    script: Path
    arguments: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse a path that cannot be a training script, before starting anything."""
        expected = "a Python script"
        if not self.script.is_file():
            found = "a directory" if self.script.is_dir() else "no file"
            raise BadInput(expected, f"{found} at {self.script}", "check the path")
        try:
            source = self.script.read_bytes()
            ast.parse(source, filename=str(self.script))
        except OSError as error:
            raise BadInput(expected, f"{self.script}: {error.strerror}", "check the file") from None
        except (SyntaxError, ValueError, UnicodeDecodeError) as error:
            line = f" at line {error.lineno}" if isinstance(error, SyntaxError) else ""
            found = f"{self.script}, which Python cannot parse{line} ({error})"
            raise BadInput(expected, found, "fix it, or give the training script") from None

    def header(self) -> dict[str, Any]:
        """The program as described in the record's header."""
        return {
            "script": str(self.script.resolve()),
            "arguments": list(self.arguments),
            "working_directory": str(Path.cwd()),
            "python": sys.version.split()[0],
            "platform": sys.platform,
            "git": git_state(self.script.resolve().parent),
        }


@dataclass(frozen=True)
class Ending:
    """How a program ended: with an exit code, or by a signal."""

    code: int | None
    signal: int | None
    seconds: float

    @property
    def sentence(self) -> str:
        """The ending in words.

        >>> Ending(code=None, signal=9, seconds=1.0).sentence
        'killed by SIGKILL'
        """
        if self.signal is not None:
            return f"killed by {signal.Signals(self.signal).name}"
        return f"ended with exit code {self.code}"


class Running:
    """A program that was started."""

    def __init__(self, program: Program, request: WatchRequest) -> None:
        self.began = time.monotonic()
        command = [sys.executable, "-m", "lossleuth.observe.child.run", str(program.script)]
        self.process = start(
            [*command, *program.arguments],
            environment=os.environ | request.environment(),
            transparent=True,
        )
        self.directory = Path(request.directory)

    def wait(self, timeout: float | None = None) -> Ending | None:
        """How it ended, or None if it goes on after `timeout` seconds.

        Signals that reach us are the program's: a terminal sends Ctrl-C to both of us, so that
        one is left to it; the others are handed on.
        """
        before = {
            number: signal.signal(number, self._hand_on)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
        }
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        seconds = time.monotonic() - self.began
        return Ending(code, None, seconds) if code >= 0 else Ending(None, -code, seconds)

    def _hand_on(self, number: int, _frame: FrameType | None) -> None:
        self.process.send_signal(number)


def save_ending(directory: Path, ending: Ending) -> None:
    """Save the ending next to the record, which a killed process cannot close."""
    note = {"code": ending.code, "signal": ending.signal, "seconds": ending.seconds}
    try:
        with replace_file(directory / ENDING) as stream:
            stream.write(strict_json.dumps(note).encode())
    except OSError as error:
        print(f"lossleuth: could not save how the run ended: {error.strerror}", file=sys.stderr)


def leave_like(ending: Ending) -> None:
    """Exit as the program did: same exit code, same signal."""
    if ending.signal is None:
        sys.exit(ending.code)
    if ending.signal not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(ending.signal, signal.SIG_DFL)
    os.kill(os.getpid(), ending.signal)


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit of the script's repository and whether files differ from it, if there is one."""

    def ask(*question: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *question],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        ).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
