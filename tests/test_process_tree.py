"""Ending a process with everything that it started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from lossleuth.process_tree import descendants, end

# Starts a process in a session of its own, says both numbers, and does not listen to Ctrl-C.
DEAF = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def started(program: str) -> tuple[subprocess.Popen[bytes], int]:
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    with process.stdout:
        return process, int(process.stdout.readline())


def test_a_process_that_does_not_listen_is_killed_with_its_children() -> None:
    process, child = started(DEAF)
    assert child in descendants(process.pid)
    assert is_running(child)
    end(process, patience=0.2)
    assert process.returncode == -9
    for _ in range(100):
        if not is_running(child):
            break
        time.sleep(0.05)
    assert not is_running(child)


def test_a_process_that_listens_tidies_up_itself() -> None:
    program = (
        "import os, time\n"
        "try:\n    print(os.getpid(), flush=True)\n    time.sleep(600)\n"
        "except KeyboardInterrupt:\n    raise SystemExit(7)\n"
    )
    process, _ = started(program)
    end(process, patience=10)
    assert process.returncode == 7


def test_what_outlived_a_process_in_its_session_is_ended() -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " stdout=subprocess.DEVNULL)\n"
        "print(child.pid)\n"
    )
    process, child = started(program)
    process.wait(10)
    assert is_running(child)
    end(process, patience=0.1)
    for _ in range(100):
        if not is_running(child):
            break
        time.sleep(0.05)
    assert not is_running(child)


def test_a_process_stems_from_its_parent_and_not_from_itself() -> None:
    assert os.getpid() in descendants(os.getppid())
    assert os.getpid() not in descendants(os.getpid())
