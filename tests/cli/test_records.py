"""The verbs of records: watch, report, compare, export."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., subprocess.CompletedProcess[str]]

SCRIPT = """
import sys
import torch
torch.manual_seed(0)
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=float(sys.argv[1]))
for step in range(6):
    loss = weight.square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
sys.exit(int(sys.argv[2]))
"""


def watched(lossleuth: Command, tmp_path: Path, name: str, *arguments: str) -> Path:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = lossleuth("watch", "--out", tmp_path / name, script, *arguments)
    assert done.returncode == int(arguments[1])
    return tmp_path / name


def test_a_watched_run_has_a_report_whatever_its_exit_code(
    lossleuth: Command, tmp_path: Path
) -> None:
    for code in ("0", "3"):
        run = watched(lossleuth, tmp_path, f"run{code}", "0.1", code)
        found = json.loads((run / "verdict.json").read_text())
        assert found["steps"] == 6
        assert "<!doctype html>" in (run / "report.html").read_text()
        assert (run / "report.md").read_text().startswith("# lossleuth: train.py")


def test_a_report_that_cannot_be_written_is_no_matter_of_the_script(
    lossleuth: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    (run / "verdict.json").mkdir(parents=True)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = lossleuth("watch", "--out", run, script, "0.1", "0")
    assert done.returncode == 0
    assert "no report was written" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_runs_are_compared_and_one_is_exported(lossleuth: Command, tmp_path: Path) -> None:
    first = watched(lossleuth, tmp_path, "a", "0.1", "0")
    second = watched(lossleuth, tmp_path, "b", "0.2", "0")
    page = tmp_path / "both.html"
    done = lossleuth("compare", first, second, "--out", page)
    assert done.returncode == 0
    # The first rate is used after the first loss.
    assert "The runs first differ at step 0, in the learning rate." in done.stdout
    assert "arguments" in done.stdout
    assert page.read_text().startswith("<!doctype html>")
    assert lossleuth("report", first, "--format", "csv").returncode == 0
    assert lossleuth("export", first, tmp_path / "a.csv").returncode == 0
    assert (first / "report.csv").read_text() == (tmp_path / "a.csv").read_text()


def test_no_run_is_no_report(lossleuth: Command, tmp_path: Path) -> None:
    for arguments in (("report", tmp_path / "x"), ("compare", tmp_path, tmp_path)):
        done = lossleuth(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("lossleuth: expected ")
