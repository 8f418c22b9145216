"""The foot of the terminal, in a real terminal emulator."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import numpy as np
import pyte
import pytest

from lossleuth.observe.steps.parameters.readings import READINGS
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter
from lossleuth.watching.panel import HEIGHT, Panel, panel_lines

PROGRAM = """
import os, sys, time
import torch
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
for k in range(40):
    weight.square().sum().backward()
    optimizer.step()
    sys.stderr.write(f"\\rbar {k}")
    if k % 10 == 9:
        print(f"line {k}")
    time.sleep(0.05)
"""


def record(folder: Path, name: str = "layer") -> Record:
    writer = RecordWriter.create(folder, {}, print)
    writer.parameters([name, "other"], [4, 4], READINGS)
    matrix = np.full((2, len(READINGS)), 0.5)
    scalars = {"loss": 2.0, "classes": 10, "unigram": 1.9, "lr": 1e-3, "tokens_per_second": 1e4}
    writer.step({"step": 0, "clip_factor": 0.5, **scalars}, matrix)
    matrix[:, READINGS.index("grad_nonfinite")] = 3
    writer.step({"step": 1, "clip_factor": 1.0, **scalars}, matrix)
    return Record.open(folder)


def test_the_lines_say_loss_floors_flow_movement_and_alarms(tmp_path: Path) -> None:
    lines = panel_lines(record(tmp_path / "r"), 100)
    assert "step 1  loss 2.0000 against ln V 2.303, unigram 1.900  10,000 tokens/s" in lines[0]
    assert lines[1].startswith("gradient by depth ")
    assert "clipped 50% of steps" in lines[2]
    assert lines[3].startswith("! the gradient of layer has")
    assert len(lines) <= HEIGHT


def test_a_hostile_name_cannot_move_the_cursor(tmp_path: Path) -> None:
    lines = panel_lines(record(tmp_path / "r", "\x1b[2Jevil\n"), 60)
    assert all(line.isprintable() and len(line) < 60 for line in lines)


def test_before_the_first_step_it_waits() -> None:
    assert panel_lines(None, 80) == ["lossleuth: waiting for the first step"]


def test_without_a_terminal_nothing_is_drawn(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Panel(tmp_path) as panel:
        assert not panel.shown
    assert capfd.readouterr() == ("", "")


def test_the_script_keeps_its_lines_and_its_progress_bar(tmp_path: Path) -> None:
    """Everything that reaches the terminal goes through an emulator of 24 rows."""
    (tmp_path / "train.py").write_text(PROGRAM)
    screen = pyte.Screen(100, 24)
    stream = pyte.ByteStream(screen)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.environ |= {"TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
        os.execv(sys.executable, [sys.executable, "-m", "lossleuth", "watch", "train.py"])
    seen_panel = False
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            break
        if not data:
            break
        stream.feed(data)
        shown = "\n".join(screen.display)
        seen_panel = seen_panel or "lossleuth: step" in shown
    os.waitpid(child, 0)
    lines = [line.rstrip() for line in screen.display]
    assert seen_panel
    assert any("39line 39" in line or line == "line 39" for line in lines)
    assert any("line 9" in line for line in lines)
    assert any("40 steps recorded" in line for line in lines)
    assert not any("gradient by depth" in line for line in lines)
