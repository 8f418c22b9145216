"""Runs that are forked from a process which has imported everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lossleuth.observe.import_list import FILE, Imports
from lossleuth.observe.launch.executor import OUTPUT, Background, RunSpec
from lossleuth.observe.launch.fork_channel import Forked
from lossleuth.observe.launch.fork_server import ForkServer
from lossleuth.observe.launch.program import Program
from lossleuth.record.read import Record

LOOP = """
import os, sys
{before}
import torch
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
print("arguments", sys.argv[1:], "threads", torch.get_num_threads(), "draw", torch.rand(1).item())
print("pid", os.getpid(), "parent", os.getppid(), "variable", os.environ.get("OWN_VARIABLE"))
for step in range(8):
    optimizer.zero_grad()
    loss = (weight + torch.randn(2)).square().sum()
    loss.backward()
    optimizer.step()
"""


def losses(directory: Path) -> list[float]:
    with Record.open(directory) as record:
        return [float(x) for x in record.series("loss")]


def three_runs(folder: Path, before: str = "") -> list[str]:
    """What three runs of a script print, one after the other."""
    script = folder / "train.py"
    script.write_text(LOOP.format(before=before))
    background = Background(Program(script, ("--own", "argument")), 1, forks=True)
    try:
        for number in range(3):
            (finished,) = background.run([RunSpec(folder / f"run{number}", 5, 30.0)])
            assert (finished.code, finished.problem) == (0, None)
    finally:
        background.close()
    return [(folder / f"run{n}" / OUTPUT).read_text() for n in range(3)]


def test_a_forked_run_does_what_a_fresh_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_VARIABLE", "kept")
    said = three_runs(tmp_path)
    first, *others = [text.splitlines() for text in said]
    assert first[0] == others[0][0] == others[1][0]
    assert losses(tmp_path / "run0") == losses(tmp_path / "run1") == losses(tmp_path / "run2")
    assert all(lines[1].endswith("variable kept") for lines in (first, *others))
    parents = [lines[1].split()[3] for lines in (first, *others)]
    # Each has a guardian of its own.
    assert len(set(parents)) == 3
    assert str(os.getpid()) not in parents


def test_a_script_that_sets_variables_is_not_forked(tmp_path: Path) -> None:
    said = three_runs(tmp_path, 'os.environ["OMP_NUM_THREADS"] = "1"')
    assert not (tmp_path / "run0" / FILE).exists()
    assert all("threads 1" in text for text in said)


@pytest.fixture
def fork_server(tmp_path: Path) -> Iterator[ForkServer]:
    script = tmp_path / "train.py"
    script.write_text("import sys; print(sys.argv); sys.exit(int(sys.argv[1]))")
    made = ForkServer(script, Imports(["json.decoder"], []), dict(os.environ))
    yield made
    made.close()


def forked(fork_server: ForkServer, folder: Path, *arguments: str) -> Forked:
    assert fork_server.is_ready(30.0)
    request = RunSpec(folder / "run", 5, 30.0).request_for({})
    environment = dict(os.environ) | request.environment()
    found = fork_server.fork(
        [str(folder / "train.py"), *arguments], environment, folder / "output.txt"
    )
    assert found is not None
    return found


@pytest.mark.parametrize("code", [0, 3])
def test_exit_codes_are_the_scripts(fork_server: ForkServer, tmp_path: Path, code: int) -> None:
    assert forked(fork_server, tmp_path, str(code)).wait(30) == code
    assert f"'{code}'" in (tmp_path / "output.txt").read_text()


def test_a_signal_is_told_and_waiting_ends(fork_server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time; time.sleep(100)")
    run = forked(fork_server, tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(0.05)
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait(10) == -signal.SIGKILL


def test_an_import_of_the_users_own_keeps_it_from_being_used(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    made = ForkServer(tmp_path / "train.py", Imports(["mine"], []), dict(os.environ))
    assert not made.is_ready(30.0)
    made.close()


def test_a_library_under_a_name_of_the_users_keeps_it_from_being_used(tmp_path: Path) -> None:
    """As with a copy of a library that the script puts first on its path."""
    made = ForkServer(tmp_path / "train.py", Imports(["json.decoder"], ["json"]), dict(os.environ))
    assert not made.is_ready(30.0)
    made.close()


def test_a_nursery_that_died_forks_nothing_and_its_runs_count_as_killed(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import time; time.sleep(2)")
    run = forked(fork_server, tmp_path)
    fork_server.close()
    assert run.poll() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(run.pid, 0)


def test_when_its_owner_is_gone_it_leaves(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from lossleuth.observe.launch.fork_server import ForkServer\n"
        "from lossleuth.observe.import_list import Imports\n"
        "n = ForkServer(Path('x.py'), Imports(['json'], []), dict(os.environ))\n"
        "assert n.is_ready(30)\n"
        "print(n._process.pid, flush=True); os._exit(0)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pid = int(said.stdout)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists() or b"Z" in Path(f"/proc/{pid}/stat").read_bytes()
