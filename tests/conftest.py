"""What all tests share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lossleuth.cli import main
from lossleuth.native import library

# Modules that several tests share are imported by their bare names; programs that tests run in
# processes of their own are no tests.
sys.path.insert(0, str(Path(__file__).parent / "support"))
# The benches, which measure what some tests bound.
sys.path.append(str(Path(__file__).parents[1]))
collect_ignore = ["support", "programs"]

# A shell that starts things in the background has them ignore Ctrl-C, and whatever they start does
# too; tests that interrupt a program want it to listen.
signal.signal(signal.SIGINT, signal.default_int_handler)
# So does `nohup` with a terminal that goes away.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Tests run side by side: one thread each, in this process and in the ones it starts.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def lossleuth(tmp_path: Path) -> Command:
    """Run the command in its own process and directory."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lossleuth", *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run the command in this process: quick, for what is refused before anything is done."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["lossleuth", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return run


@pytest.fixture(params=["native", "fallback"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which kernels the test runs on: the native library, and what stands in where it is absent."""
    if request.param == "fallback":
        monkeypatch.setattr(library, "load", lambda: None)
    else:
        from needs import need_native

        need_native()
    return str(request.param)
