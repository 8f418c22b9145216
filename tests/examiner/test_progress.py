"""What is shown while a program is examined."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pyte
import pytest

from lossleuth.examiner.progress import Announcement, ProgressPrinter, RuledOut

COLUMNS = 60


def test_without_a_terminal_every_sentence_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressPrinter() as report_progress:
        report_progress("running it")
        report_progress(RuledOut(3, 5))
        report_progress("trying [this]")
        report_progress(Announcement("proven: [that]"))
    said = "  running it\n  3 of 5 causes ruled out\n  trying [this]\n  proven: [that]\n"
    assert capsys.readouterr().err == said


def test_quietly_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressPrinter(quiet=True) as report_progress:
        report_progress("running it")
    assert capsys.readouterr().err == ""


def screens(calls: str) -> tuple[list[str], list[str]]:
    """What a terminal shows just before the printer ends, and after: lines that are not empty."""
    code = (
        "import time\n"
        "from lossleuth.examiner.progress import Announcement, ProgressPrinter, RuledOut\n"
        f"with ProgressPrinter() as report_progress:\n    {calls}; time.sleep(0.4)"
    )
    parent, child = pty.openpty()
    size = {"COLUMNS": str(COLUMNS), "LINES": "10", "TERM": "xterm"}
    subprocess.run(
        [sys.executable, "-c", code], stderr=child, check=True, timeout=60, env=os.environ | size
    )
    os.close(child)
    written = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:
            break
        if not piece:
            break
        written += piece
    os.close(parent)
    # Clearing the line is the last thing that is written.
    before, _, after = written.decode().rpartition("\x1b[2K")
    shown = []
    screen = pyte.Screen(COLUMNS, 10)
    stream = pyte.Stream(screen)
    for text in (before, f"\x1b[2K{after}"):
        stream.feed(text)
        shown.append([line.rstrip() for line in screen.display if line.strip()])
    return shown[0], shown[1]


def test_in_a_terminal_one_line_says_what_is_done_and_what_is_ruled_out() -> None:
    moving, left = screens(
        "report_progress('running [it]'); report_progress(RuledOut(38, 50)); "
        "report_progress('trying that')"
    )
    assert len(moving) == 1
    assert re.search(r"0:00:0\d 38 of 50 causes ruled out · trying that$", moving[0])
    assert left == []


def test_what_is_announced_stays_above_the_moving_line() -> None:
    moving, left = screens(
        "report_progress('running it'); "
        "report_progress(Announcement('proven: [that]')); report_progress('going on')"
    )
    assert moving[0] == "  proven: [that]"
    assert moving[1].endswith("going on")
    assert left == ["  proven: [that]"]


def test_a_sentence_longer_than_the_terminal_stays_one_line() -> None:
    moving, left = screens("report_progress('trying ' + 'a, ' * 60)")
    assert len(moving) == 1
    assert moving[0].endswith("…") and len(moving[0]) <= COLUMNS
    assert left == []


def test_a_program_that_reads_along_gets_an_object_on_each_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressPrinter(as_json=True) as report_progress:
        report_progress('running "it"')
        report_progress(RuledOut(1, 2))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["progress"] for line in lines] == ['running "it"', "1 of 2 causes ruled out"]
    assert all(line["seconds"] >= 0 for line in lines)
