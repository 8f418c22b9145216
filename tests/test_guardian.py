"""Whatever ends us ends everything that we have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from lossleuth.guardian import descendants, discard
from lossleuth.process_tree import start

# Every process of a test carries this in its environment.
MARK = "LOSSLEUTH_TEST_MARK"
# Starts a child, one in a session of its own, one whose parent is gone, and a worker that is deaf
# to signals; then it blocks, and listens to nothing either.
BREEDER = """
import multiprocessing, os, signal, subprocess, sys, time
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(SLEEP)
subprocess.Popen(SLEEP, start_new_session=True)
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execv(sys.executable, SLEEP)
    os._exit(0)
worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
worker.start()
open({ready!r}, "w").close()
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGINT, signal.SIGTERM, signal.SIGHUP}})
time.sleep(600)
"""
# A script that breeds in a run that is forked: in the second one, before its model is made or in
# its steps. The folder of that run, and of no other, has its name in it.
FORKED = """
import json, os, torch
def bred():
    request = json.loads(os.environ["LOSSLEUTH_WATCH"])
    return {name!r} in request["directory"]
if {early} and bred():
    exec({breeder!r})
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(60):
    weight.square().sum().backward()
    optimizer.step()
    if not {early} and step == 3 and bred():
        exec({breeder!r})
"""
TWO_RUNS = """
import sys
from pathlib import Path
from lossleuth.observe.launch.executor import Background, RunSpec
from lossleuth.observe.launch.program import Program
script = Path(sys.argv[1])
background = Background(Program(script), 1, forks=True)
for name in ("first", "second"):
    after = 1 if name == "second" and sys.argv[2] == "loaded" else None
    background.run([RunSpec(script.parent / name, 5, 600.0, forked_after=after)])
"""

# Signals, and the exit codes that they may lead to.
ENDINGS: list[tuple[list[signal.Signals], tuple[int, ...]]] = [
    ([signal.SIGTERM], (128 + signal.SIGTERM,)),
    ([signal.SIGHUP], (128 + signal.SIGHUP,)),
    # Once: it judges what it has seen, which is nothing. Twice: it ends at once.
    ([signal.SIGINT], (0,)),
    ([signal.SIGINT, signal.SIGINT], (0, 2)),
    ([signal.SIGKILL], (-signal.SIGKILL,)),
]


def marked(mark: str) -> list[int]:
    """Processes that run and carry the mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            carries = f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if carries and state != "Z":
            found.append(int(entry.name))
    return found


@pytest.fixture
def mark() -> Iterator[str]:
    name = uuid4().hex
    yield name
    for pid in marked(name):
        os.kill(pid, signal.SIGKILL)


class Ended:
    """A command that starts a breeder, and is ended once that has bred."""

    def __init__(self, folder: Path, mark: str, *command: str) -> None:
        self.mark, self.scratch = mark, folder / "scratch"
        self.fewest = 6
        self.scratch.mkdir()
        # Outside of the script's folder: what it writes there is thrown away.
        self.ready = folder / "ready"
        environment = os.environ | {MARK: mark, "TMPDIR": str(self.scratch)}
        self.process = subprocess.Popen(
            [sys.executable, *command],
            env=environment,
            cwd=folder / "program",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def by(self, *numbers: signal.Signals) -> int:
        """Its exit code after these signals, a second apart."""
        until = time.monotonic() + 60
        while not self.ready.exists():
            assert self.process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        # Itself, the breeder, and the four that it has started.
        assert len(marked(self.mark)) >= self.fewest
        for number in numbers:
            self.process.send_signal(number)
            time.sleep(1 if number != numbers[-1] else 0)
        return self.process.wait(30)

    @property
    def survivors(self) -> list[int]:
        """What still runs, after a while in which it may end."""
        for _ in range(200):
            if not marked(self.mark):
                break
            time.sleep(0.05)
        return marked(self.mark)


def breeder(folder: Path) -> str:
    return BREEDER.format(ready=str(folder / "ready"))


def script_of(folder: Path, source: str) -> Path:
    (folder / "program").mkdir()
    (folder / "program" / "train.py").write_text(source)
    return folder / "program" / "train.py"


def bred(folder: Path, mark: str, verb: str) -> Ended:
    script = script_of(folder, breeder(folder))
    return Ended(folder, mark, "-m", "lossleuth", verb, "--out", str(folder / "run"), str(script))


@pytest.mark.parametrize(("numbers", "codes"), ENDINGS)
def test_nothing_outlives_a_run(
    tmp_path: Path, mark: str, numbers: list[signal.Signals], codes: tuple[int, ...]
) -> None:
    ended = bred(tmp_path, mark, "run")
    assert ended.by(*numbers) in codes
    assert not ended.survivors
    assert not list(ended.scratch.glob("lossleuth-*"))


def test_nothing_outlives_a_watch_that_is_killed(tmp_path: Path, mark: str) -> None:
    ended = bred(tmp_path, mark, "watch")
    assert ended.by(signal.SIGKILL) == -signal.SIGKILL
    assert not ended.survivors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_watched_script_that_is_ended_takes_everything_along(
    tmp_path: Path, mark: str, number: signal.Signals
) -> None:
    """The signal is the script's: what it does not block, it gets."""
    source = breeder(tmp_path).replace("signal.pthread_sigmask", "print")
    script = script_of(tmp_path, source)
    out = str(tmp_path / "run")
    ended = Ended(tmp_path, mark, "-m", "lossleuth", "watch", "--out", out, str(script))
    assert ended.by(number) == -number
    assert not ended.survivors


def test_what_a_watched_script_leaves_behind_at_its_end_lives_on(tmp_path: Path, mark: str) -> None:
    source = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    )
    script = script_of(tmp_path, source)
    command = ["-m", "lossleuth", "watch", "--out", str(tmp_path / "run"), str(script)]
    ended = Ended(tmp_path, mark, *command)
    ended.process.wait(60)
    assert len(marked(mark)) == 1


def forked(folder: Path, name: str, *, early: bool) -> Path:
    """A script that breeds in the run of that name."""
    source = FORKED.format(breeder=breeder(folder), name=name, early=early)
    return script_of(folder, source)


@pytest.mark.parametrize(
    ("way", "early"),
    [("imported", True), ("loaded", True), ("loaded", False)],
    ids=["imported", "while it loads", "loaded"],
)
def test_nothing_outlives_the_owner_of_a_process_to_fork(
    tmp_path: Path, mark: str, way: str, early: bool
) -> None:
    """From one that has done its imports, or one in which the script was loaded or still loads."""
    script = forked(tmp_path, "second", early=early)
    ended = Ended(tmp_path, mark, "-c", TWO_RUNS, str(script), way)
    # The loaded script stands beside what was forked from it, with a guardian of its own.
    ended.fewest = 10 if (way, early) == ("loaded", False) else 6
    assert ended.by(signal.SIGKILL) == -signal.SIGKILL
    assert not ended.survivors
    assert not list(ended.scratch.glob("lossleuth-*"))


@pytest.mark.slow
@pytest.mark.parametrize(("numbers", "codes"), ENDINGS)
def test_nothing_outlives_a_run_that_is_ended_in_its_trials(
    tmp_path: Path, mark: str, numbers: list[signal.Signals], codes: tuple[int, ...]
) -> None:
    script = forked(tmp_path, "/trials/", early=False)
    ended = Ended(
        tmp_path, mark, "-m", "lossleuth", "run", "--out", str(tmp_path / "run"), str(script)
    )
    # It has seen enough to prove something: where it still judges, it says so.
    assert ended.by(*numbers) in (*codes, 1 if signal.SIGINT in numbers else codes[0])
    assert not ended.survivors
    assert not list(ended.scratch.glob("lossleuth-*"))


def test_nothing_outlives_a_command_of_ours_inside_another(tmp_path: Path, mark: str) -> None:
    """As `lab` and the MCP server start `run`: two guardians, one below the other."""
    script = script_of(tmp_path, breeder(tmp_path))
    outer = (
        "import sys; from lossleuth.process_tree import GRACE_SECONDS, start\n"
        "start(sys.argv[1:], grace=GRACE_SECONDS).wait()\n"
    )
    inner = [sys.executable, "-m", "lossleuth", "run", "--out", str(tmp_path / "run"), str(script)]
    ended = Ended(tmp_path, mark, "-c", outer, *inner)
    assert ended.by(signal.SIGKILL) == -signal.SIGKILL
    assert not ended.survivors
    assert not list(ended.scratch.glob("lossleuth-*"))


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("import os; os.kill(os.getpid(), 15)", -15),
    ],
)
def test_a_guardian_exits_as_the_program_does(program: str, code: int) -> None:
    assert start([sys.executable, "-c", program]).wait(30) == code


def test_a_program_whose_guardian_is_killed_ends(tmp_path: Path, mark: str) -> None:
    program = f"import time; open({str(tmp_path / 'ready')!r}, 'w'); time.sleep(600)"
    process = start([sys.executable, "-c", program], environment=os.environ | {MARK: mark})
    while not (tmp_path / "ready").exists():
        time.sleep(0.02)
    assert len(descendants(process.pid)) == 1
    process.kill()
    process.wait(10)
    for _ in range(100):
        if not marked(mark):
            break
        time.sleep(0.05)
    assert not marked(mark)


def test_a_program_gets_the_time_to_end_in_order(tmp_path: Path) -> None:
    program = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        f"pathlib.Path({str(tmp_path / 'ready')!r}).touch()\n"
        "time.sleep(600)\n"
    )
    scratch = tmp_path / "scratch"
    (scratch / "deep").mkdir(parents=True)
    (scratch / "deep").chmod(0)
    process = start([sys.executable, "-c", program], grace=20.0, scratch=str(scratch))
    while not (tmp_path / "ready").exists():
        time.sleep(0.02)
    process.terminate()
    assert process.wait(30) == 3
    assert not scratch.exists()


def test_a_folder_that_is_gone_is_discarded_again(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for _ in range(2):
        discard(str(tmp_path / "there"))
    assert not (tmp_path / "there").exists()


def test_a_process_stems_from_its_parent_and_not_from_itself() -> None:
    assert os.getpid() in descendants(os.getppid())
    assert os.getpid() not in descendants(os.getpid())
