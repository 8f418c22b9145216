"""What is shown while a program is examined."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from lossleuth.examiner.progress import Telling


def test_without_a_terminal_every_sentence_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Telling() as told:
        told("running it")
        told("trying [this]")
    assert capsys.readouterr().err == "  running it\n  trying [this]\n"


def test_quietly_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with Telling(quiet=True) as told:
        told("running it")
    assert capsys.readouterr().err == ""


def test_in_a_terminal_the_latest_sentence_moves_and_all_are_left_standing() -> None:
    code = (
        "import time; from lossleuth.examiner.progress import Telling\n"
        "with Telling() as told:\n"
        "    told('running [it]'); time.sleep(0.4); told('trying that'); time.sleep(0.4)"
    )
    parent, child = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stderr=child, check=True, timeout=60)
    os.close(child)
    said = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(parent)
    text = said.decode()
    # Once in motion, more than once, and once at rest.
    assert text.count("running [it]") > 2
    assert text.count("trying that") > 2
    assert "0:00:00" in text


def test_a_program_that_reads_along_gets_an_object_on_each_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Telling(as_json=True) as told:
        told('running "it"')
        told("trying")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["progress"] for line in lines] == ['running "it"', "trying"]
    assert all(line["seconds"] >= 0 for line in lines)
