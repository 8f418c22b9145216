"""Programs run in the background: several at a time, each with a deadline, none left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lossleuth.files import make_directory
from lossleuth.observe.import_list import noted_imports
from lossleuth.observe.launch.fork_server import Forked, ForkServer
from lossleuth.observe.launch.program import Program
from lossleuth.observe.request import WatchRequest
from lossleuth.process_tree import kill
from lossleuth.run_directory import OUTPUT
from lossleuth.types.change import Change

# What a script prints beyond this is thrown away.
MOST_OUTPUT = 16 << 20
POLL_SECONDS = 0.05
# How long a run waits for the process it is forked from, which imports what it would import.
FORK_SERVER_SECONDS = 15.0


@dataclass(frozen=True)
class RunSpec:
    """One run of a program: for how long, what to look at, what to change."""

    directory: Path
    steps: int
    seconds: float
    tape: tuple[int, ...] = ()
    loss_steps: tuple[int, ...] = ()
    seed_shift: int = 0
    changes: tuple[Change, ...] = ()
    # Whether steps are looked for that are made without autograd.
    by_hand: bool = False

    def request_for(
        self, header: dict[str, Any], process: int = 0, scratch: str | None = None
    ) -> WatchRequest:
        """What the process is told."""
        return WatchRequest(
            str(self.directory.resolve()),
            header,
            process=process,
            tape=self.tape,
            loss_steps=self.loss_steps,
            stop_steps=self.steps,
            stop_seconds=self.seconds,
            seed_shift=self.seed_shift,
            scratch=scratch,
            changes=tuple((c.name, dict(c.options)) for c in self.changes),
            by_hand=self.by_hand,
        )


@dataclass
class RunOutcome:
    """How a planned run ended: its exit code, or why there is none."""

    plan: RunSpec
    code: int | None
    seconds: float
    problem: str | None = None


@dataclass
class _Process:
    plan: RunSpec
    process: subprocess.Popen[bytes] | Forked
    scratch: str
    began: float = field(default_factory=time.monotonic)

    @property
    def output(self) -> Path:
        return self.plan.directory / OUTPUT


class Executor(Protocol):
    """Whoever carries out plans: processes of this machine now, others later."""

    def run(
        self,
        plans: Sequence[RunSpec],
        until: float = float("inf"),
        told: Callable[[RunOutcome], None] = lambda _: None,
    ) -> list[RunOutcome]:
        """Carry out all plans and say how each ended, in their order."""


class Background:
    """Runs plans of one program, as many at a time as there are cores for.

    Where many runs are to come, those after the first are forked from a process that has imported
    what the first one did.
    """

    def __init__(self, program: Program, jobs: int, *, forks: bool = False) -> None:
        self._program = program
        self._jobs = jobs
        self._forks = forks
        self._fork_server: ForkServer | None = None

    def close(self) -> None:
        """Let go of what was kept for further runs."""
        if self._fork_server is not None:
            self._fork_server.close()
            self._fork_server = None

    def run(
        self,
        plans: Sequence[RunSpec],
        until: float = float("inf"),
        told: Callable[[RunOutcome], None] = lambda _: None,
    ) -> list[RunOutcome]:
        """Run all, in order, and wait; what is not over at `until` (monotonic) is ended."""
        waiting, running = list(plans), list[_Process]()
        finished: dict[int, RunOutcome] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._jobs and time.monotonic() < until:
                    running.append(self._start(waiting.pop(0)))
                for process in list(running):
                    self._prepare(process.plan.directory)
                    found = self._look(process, until)
                    if found is not None:
                        running.remove(process)
                        finished[id(found.plan)] = found
                        told(found)
                if waiting and not running and time.monotonic() >= until:
                    break
                time.sleep(POLL_SECONDS)
        finally:
            for process in running:
                _end(process)
        late = "no time was left for it"
        return [finished.get(id(plan), RunOutcome(plan, None, 0.0, late)) for plan in plans]

    def _prepare(self, directory: Path) -> None:
        """Once a run has said what it imports, have a process ready that has imported it."""
        if self._forks and self._fork_server is None:
            imports = noted_imports(directory)
            if imports is not None:
                self._fork_server = ForkServer(self._program.script, imports, self._environment())

    def _environment(self) -> dict[str, str]:
        # The same for all: what is observed must be what is tried.
        threads = max(1, (os.cpu_count() or 1) // self._jobs)
        settings = {"OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": "0"}
        # A run of ours is none of the user's, whatever is set: no window, nothing sent anywhere.
        quiet = {
            "PYTHONUNBUFFERED": "1",
            "MPLBACKEND": "Agg",
            "WANDB_MODE": "disabled",
            "TQDM_DISABLE": "1",
        }
        return settings | dict(os.environ) | quiet

    def _start(self, plan: RunSpec) -> _Process:
        make_directory(plan.directory)
        scratch = tempfile.mkdtemp(prefix="lossleuth-")
        request = plan.request_for(self._program.header(), scratch=scratch)
        arguments = [str(self._program.script), *self._program.arguments]
        environment = self._environment() | request.environment()
        output = plan.directory / OUTPUT
        if self._fork_server is not None and self._fork_server.is_ready(FORK_SERVER_SECONDS):
            forked = self._fork_server.fork(arguments, environment, output)
            if forked is not None:
                return _Process(plan, forked, scratch)
        with output.open("ab") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "lossleuth.observe.child.run", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return _Process(plan, process, scratch)

    def _look(self, running: _Process, until: float) -> RunOutcome | None:
        code = running.process.poll()
        seconds = time.monotonic() - running.began
        if code is not None:
            # Children of the script that outlive it are ended with it.
            _end(running)
            return RunOutcome(running.plan, code, seconds)
        with suppress(OSError):
            if running.output.stat().st_size > MOST_OUTPUT:
                os.truncate(running.output, 0)
        # The run stops by itself; starting up and looking take time as well.
        patience = 3 * running.plan.seconds + 30
        if seconds > patience or time.monotonic() > until:
            _end(running)
            reason = f"it was ended after {seconds:.0f} s without coming to its end"
            return RunOutcome(running.plan, None, seconds, reason)
        return None


def _end(running: _Process) -> None:
    """End a process and all that it started, and throw away what they wrote."""
    kill(running.process)
    shutil.rmtree(running.scratch, onerror=_make_writable)


def _make_writable(function: Callable[..., Any], path: str, _error: object) -> None:
    """Overlays leave folders without any permission behind."""
    with suppress(OSError):
        Path(path).chmod(0o700)
        function(path)


def last_words(directory: Path, most: int = 2000) -> str:
    """The end of what a run printed."""
    try:
        return (directory / OUTPUT).read_bytes()[-most:].decode(errors="replace").strip()
    except OSError:
        return ""
