"""Ending a process with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lossleuth.guardian import descendants
from lossleuth.process_tree import end, ended_in_order, start

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
    process = start(
        [sys.executable, "-c", program], streams=(subprocess.DEVNULL, subprocess.PIPE, None)
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


def test_what_outlives_a_command_is_ended_with_it() -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " stdout=subprocess.DEVNULL, start_new_session=True)\n"
        "print(child.pid)\n"
    )
    process, child = started(program)
    assert process.wait(10) == 0
    assert not is_running(child)


def test_a_guardian_that_does_not_answer_is_killed_with_everything_below() -> None:
    process, child = started(DEAF)
    process.send_signal(signal.SIGSTOP)
    end(process, patience=0.2)
    assert process.returncode == -9
    for _ in range(100):
        if not is_running(child):
            break
        time.sleep(0.05)
    assert not is_running(child)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unwinds_the_block_and_gives_the_usual_exit_code(number: int) -> None:
    with pytest.raises(SystemExit) as left, ended_in_order():
        os.kill(os.getpid(), number)
        time.sleep(10)
    assert left.value.code == 128 + number
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_signal_that_somebody_handles_or_ignores_stays_theirs() -> None:
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_in_order():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
        assert heard == [1]
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, hangup)


def test_in_another_thread_signals_are_left_alone() -> None:
    passed = []

    def block() -> None:
        with ended_in_order():
            passed.append(1)

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert passed == [1]
