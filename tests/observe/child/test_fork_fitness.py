"""What stands in the way of a fork."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lossleuth.observe.child.fork_fitness import open_files, part_from_parent, why_not_to_fork

ASK = """
import os, sys
{before}
from lossleuth.observe.child.fork_fitness import why_not_to_fork
print(why_not_to_fork(frozenset(), {threads}))
{after}
"""


def reason(before: str, after: str = "", threads: int = 1) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(before=before, after=after, threads=threads)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("", "None"),
        ("own = open(os.devnull)", "None"),
        ("own = open(sys.executable, 'rb')", "None"),
        ("import signal; signal.signal(signal.SIGCHLD, lambda *_: None)", "it handles SIGCHLD"),
        ("import socket; own = socket.socket()", "it has an open socket or pipe (3)"),
        ("own = os.pipe()", "it has an open socket or pipe (3)"),
        ("import subprocess; own = subprocess.Popen(['sleep', '9'])", "it has child processes"),
        ("import mmap; own = mmap.mmap(-1, 4096)", "it may write to memory that it shares"),
        (
            "import tempfile; own = tempfile.TemporaryFile()",
            "it has a file open for reading and writing (3)",
        ),
    ],
)
def test_what_a_fork_would_share(before: str, why: str) -> None:
    end = "own.kill()" if "Popen" in before else ""
    assert reason(before, end).startswith(why)


def test_threads_are_not_forked() -> None:
    before = "import threading; e = threading.Event(); threading.Thread(target=e.wait).start()"
    assert reason(before, "e.set()") == "1 other Python threads are running"


def test_threads_of_libraries_matter_where_torch_has_some_too() -> None:
    """numpy's or a tokenizer's make themselves anew in a fork; those of OpenMP do not."""
    before = (
        "import torch; torch.set_num_threads(2); x = torch.ones(300, 300) @ torch.ones(300, 300)"
    )
    assert reason(before, threads=2) == "torch computes with 2 threads"
    assert reason(before, threads=1) == "None"


def test_our_own_files_do_not_count() -> None:
    reading, writing = os.pipe()
    try:
        kinds = dict(open_files())
        assert {reading, writing} <= set(kinds)
        known = frozenset(kinds)
        if threading.active_count() == 1 and signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL:
            assert "socket or pipe" not in str(why_not_to_fork(known, 1))
    finally:
        os.close(reading)
        os.close(writing)


def in_fork(work: Callable[[], None]) -> None:
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.parametrize("parts", [True, False])
def test_a_fork_reads_on_by_itself(tmp_path: Path, parts: bool) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(range(100)))
    with path.open("rb", buffering=0) as stream, mmap.mmap(-1, 8) as seen:
        stream.read(10)

        def work() -> None:
            if parts:
                part_from_parent()
            seen[0] = stream.read(1)[0]

        in_fork(work)
        assert seen[0] == 10
        # Without parting, the fork has read on for us as well.
        assert stream.read(1)[0] == (10 if parts else 11)
