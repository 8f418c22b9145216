"""Programs run in the background: several at a time, each with a deadline, none left behind."""

from __future__ import annotations

import math
import os
import shutil
import signal
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
from lossleuth.guardian import discard
from lossleuth.observe.import_list import noted_imports
from lossleuth.observe.launch.fork_server import SCRATCH, ForkServer
from lossleuth.observe.launch.loaded_script import LoadedScript, has_memory_beside
from lossleuth.observe.launch.program import Program
from lossleuth.observe.request import CANNOT_GO_ON, WatchRequest
from lossleuth.process_tree import Started, kill, start
from lossleuth.run_directory import OUTPUT
from lossleuth.types.change import Change

# Output beyond this is discarded.
MAX_OUTPUT_BYTES = 16 << 20
POLL_SECONDS = 0.05
# How long a run waits for the fork server to finish its imports.
FORK_SERVER_SECONDS = 15.0
# Share of its time after which a run ends by itself, so that it can still write how it ended.
FINISH_SHARE = 0.95


@dataclass(frozen=True)
class RunSpec:
    """One run of a program: how long, what to record, what to change."""

    directory: Path
    # None: to the script's own end, as far as the seconds go.
    steps: int | None
    # Of training; start-up is not counted.
    seconds: float
    tape: tuple[int, ...] = ()
    # Whether to choose further steps for a tape as the run unfolds.
    paced: bool = False
    # Whether to keep what each step trains on.
    keeps_batches: bool = False
    loss_steps: tuple[int, ...] = ()
    seed_shift: int = 0
    changes: tuple[Change, ...] = ()
    # The step from which on they act: the first of the phase that is looked at.
    from_step: int = 0
    # Whether to look for training steps without autograd.
    by_hand: bool = False
    # Seconds after which the whole run is ended, if it does not end by itself.
    patience: float = math.inf
    # Optimizers and schedules that the script makes before it trains. With them made, the run may
    # be forked from a process in which the script has come so far with the same seeds.
    forked_after: int | None = None

    def request_for(
        self,
        header: dict[str, Any],
        process: int = 0,
        scratch: str | None = None,
        until: float = math.inf,
        channel: str | None = None,
    ) -> WatchRequest:
        """The request that the child process reads; at `until` (monotonic) it is killed.

        With a `channel`, it is to load the script and to be forked.
        """
        left = FINISH_SHARE * min(until - time.monotonic(), self.patience)
        return WatchRequest(
            str(self.directory.resolve()),
            header,
            process=process,
            tape=self.tape,
            paced=self.paced,
            keeps_batches=self.keeps_batches,
            loss_steps=self.loss_steps,
            stop_steps=self.steps,
            stop_seconds=self.seconds,
            until=None if left == math.inf else time.time() + left,
            seed_shift=self.seed_shift,
            scratch=scratch,
            changes=tuple((c.name, dict(c.options)) for c in self.changes),
            from_step=self.from_step,
            by_hand=self.by_hand,
            forked_after=None if channel is None else self.forked_after,
            channel=channel,
        )


@dataclass
class RunOutcome:
    """How a planned run ended: its exit code, or why there is none."""

    plan: RunSpec
    code: int | None
    seconds: float
    problem: str | None = None
    # Whether it went on from a loaded script.
    went_on: bool = False


@dataclass
class _Process:
    plan: RunSpec
    process: Started
    scratch: str
    went_on: bool = False
    began: float = field(default_factory=time.monotonic)

    @property
    def output(self) -> Path:
        return self.plan.directory / OUTPUT


class Executor(Protocol):
    """Carries out planned runs: in local processes, or in this one."""

    def run(
        self,
        plans: Sequence[RunSpec],
        until: float = float("inf"),
        on_finished: Callable[[RunOutcome], None] = lambda _: None,
    ) -> list[RunOutcome]:
        """Carry out all plans; their outcomes, in the same order."""

    def load_no_more(self) -> None:
        """Run every plan from the script's beginning from now on."""


class Background:
    """Runs plans of one program, as many at a time as there are cores for.

    Where many runs are to come, those after the first are forked: from a process that has imported
    what the first one did, or from one in which the script has loaded its data and its model.
    """

    def __init__(self, program: Program, jobs: int, *, forks: bool = False) -> None:
        self._program = program
        self._jobs = jobs
        self._forks = forks
        self._fork_server: ForkServer | None = None
        self._loads = forks
        # By the shift of their seeds.
        self._loaded: dict[int, LoadedScript] = {}
        # Why runs cannot be forked from a loaded script, if so.
        self.refusal: str | None = None

    def close(self) -> None:
        """End all processes that are there to be forked."""
        self.load_no_more()
        if self._fork_server is not None:
            self._fork_server.close()
            self._fork_server = None

    def load_no_more(self) -> None:
        """Run every plan from the script's beginning from now on."""
        self._loads = False
        for loaded in self._loaded.values():
            loaded.close()
        self._loaded.clear()

    def run(
        self,
        plans: Sequence[RunSpec],
        until: float = float("inf"),
        on_finished: Callable[[RunOutcome], None] = lambda _: None,
    ) -> list[RunOutcome]:
        """Run all, in order, and wait; kill what still runs at `until` (monotonic)."""
        waiting, running = list(plans), list[_Process]()
        finished: dict[int, RunOutcome] = {}
        try:
            while waiting or running:
                self._start_some(waiting, running, until)
                for process in list(running):
                    self._prepare(process.plan.directory)
                    found = self._look(process, until)
                    if found is None:
                        continue
                    running.remove(process)
                    if found.went_on and _may_be_our_doing(found) and time.monotonic() < until:
                        self.load_no_more()
                        shutil.rmtree(found.plan.directory, ignore_errors=True)
                        waiting.insert(0, found.plan)
                        continue
                    finished[id(found.plan)] = found
                    on_finished(found)
                if waiting and not running and time.monotonic() >= until:
                    break
                time.sleep(POLL_SECONDS)
        finally:
            for process in running:
                _end(process)
        late = "no time left"
        return [finished.get(id(plan), RunOutcome(plan, None, 0.0, late)) for plan in plans]

    def _prepare(self, directory: Path) -> None:
        """Start the fork server once a run has listed its imports."""
        if self._forks and self._fork_server is None:
            imports = noted_imports(directory)
            if imports is not None:
                self._fork_server = ForkServer(self._program.script, imports, self._environment())

    def _environment(self) -> dict[str, str]:
        # The same for all, so that trials match the observed run.
        threads = max(1, (os.cpu_count() or 1) // self._jobs)
        settings = {"OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": "0"}
        # Our runs must open no window and upload nothing, whatever the user has set.
        quiet = {
            "PYTHONUNBUFFERED": "1",
            "MPLBACKEND": "Agg",
            "WANDB_MODE": "disabled",
            "TQDM_DISABLE": "1",
        }
        return settings | dict(os.environ) | quiet

    def _start_some(self, waiting: list[RunSpec], running: list[_Process], until: float) -> None:
        """Start what there are cores for. A script that is being loaded takes one as well."""
        for plan in list(waiting):
            loading = sum(loaded.is_loading for loaded in self._loaded.values())
            if len(running) + loading >= self._jobs or time.monotonic() >= until:
                break
            loaded = self._loaded_for(plan, until)
            if loaded is None or not loaded.is_loading:
                waiting.remove(plan)
                running.append(self._start(plan, until, loaded))

    def _loaded_for(self, plan: RunSpec, until: float) -> LoadedScript | None:
        """The script as it was loaded for such runs; None where they have to load it themselves."""
        if not self._loads or plan.forked_after is None:
            return None
        found = self._loaded.get(plan.seed_shift)
        if found is None:
            others = list(self._loaded.values())
            if others and not has_memory_beside(others[0]):
                return None
            found = self._loaded[plan.seed_shift] = self._load(plan, until)
        if found.is_loading or found.refusal is None:
            return found
        self.refusal = found.refusal
        self.load_no_more()
        return None

    def _load(self, plan: RunSpec, until: float) -> LoadedScript:
        """Have the script load everything and wait."""
        make_directory(plan.directory)
        scratch = self._scratch()

        def begin(channel: str) -> Started:
            environment = self._environment_of(plan, scratch, until, channel)
            return self._begin(environment, plan.directory / OUTPUT, scratch, until)

        return LoadedScript(begin, scratch, plan.patience)

    def _start(self, plan: RunSpec, until: float, loaded: LoadedScript | None) -> _Process:
        make_directory(plan.directory)
        scratch, output = self._scratch(), plan.directory / OUTPUT
        environment = self._environment_of(plan, scratch, until)
        if loaded is not None:
            forked = loaded.fork(self._arguments, environment, output, scratch)
            if forked is not None:
                return _Process(plan, forked, scratch, went_on=True)
        return _Process(plan, self._begin(environment, output, scratch, until), scratch)

    def _scratch(self) -> str:
        """A folder to write to; that of the fork server is removed with everything in it."""
        if self._fork_server is None:
            return tempfile.mkdtemp(prefix=SCRATCH)
        return tempfile.mkdtemp(dir=self._fork_server.scratch)

    def _begin(
        self, environment: dict[str, str], output: Path, scratch: str, until: float
    ) -> Started:
        """Start the script from its beginning, with its imports done where that is possible."""
        server = self._fork_server
        wait = min(FORK_SERVER_SECONDS, until - time.monotonic())
        if server is not None and server.is_ready(wait):
            forked = server.fork(self._arguments, environment, output, scratch)
            if forked is not None:
                return forked
        with output.open("ab") as stream:
            return start(
                [sys.executable, "-m", "lossleuth.observe.child.run", *self._arguments],
                environment=environment,
                streams=(subprocess.DEVNULL, stream, subprocess.STDOUT),
                scratch=scratch,
            )

    @property
    def _arguments(self) -> list[str]:
        return [str(self._program.script), *self._program.arguments]

    def _environment_of(
        self, plan: RunSpec, scratch: str, until: float, channel: str | None = None
    ) -> dict[str, str]:
        header = self._program.header()
        request = plan.request_for(header, scratch=scratch, until=until, channel=channel)
        return self._environment() | request.environment()

    def _look(self, running: _Process, until: float) -> RunOutcome | None:
        code = running.process.poll()
        seconds = time.monotonic() - running.began
        if code is not None:
            _end(running)
            return RunOutcome(running.plan, code, seconds, went_on=running.went_on)
        with suppress(OSError):
            if running.output.stat().st_size > MAX_OUTPUT_BYTES:
                os.truncate(running.output, 0)
        if seconds > running.plan.patience or time.monotonic() > until:
            _end(running)
            reason = f"it did not finish within {seconds:.0f} s"
            return RunOutcome(running.plan, None, seconds, reason, running.went_on)
        return None


def _may_be_our_doing(outcome: RunOutcome) -> bool:
    """Whether a forked run ended as it might not have by itself: it hung, or was killed."""
    return outcome.problem is not None or outcome.code in (CANNOT_GO_ON, -signal.SIGKILL)


def _end(running: _Process) -> None:
    """End a process and its children, and discard what they wrote."""
    kill(running.process)
    # Its guardian has done so, unless that was killed.
    if Path(running.scratch).exists():
        discard(running.scratch)


def last_words(directory: Path, most: int = 2000) -> str:
    """The last part of a run's output."""
    try:
        return (directory / OUTPUT).read_bytes()[-most:].decode(errors="replace").strip()
    except OSError:
        return ""
