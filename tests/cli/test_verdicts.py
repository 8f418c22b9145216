"""The verbs of a verdict: run, rejudge, causes, explain."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lossleuth.catalogue import causes

Command = Callable[..., subprocess.CompletedProcess[str]]

SCRIPT = """
import sys
import torch
from torch.nn import functional as F

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(8, 16), torch.nn.Linear(16, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=float(sys.argv[1]))
for step in range(40):
    tokens = (torch.arange(9) + torch.randint(0, 8, (8, 1))) % 8
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_without_a_fault_that_was_not_challenged_ends_with_0_and_a_file(
    lossleuth: Command, tmp_path: Path, script: Path
) -> None:
    done = lossleuth("run", "--no-trials", "--out", tmp_path / "out", script, "0.1")
    assert done.returncode == 0
    assert done.stdout.startswith("Cannot tell. No cause found, but it was not tried with")
    found = json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert (found["schema"], found["status"], found["steps"]) == (1, "cannot_tell", 40)
    assert (found["causes"], found["errored"]) == ([], [])
    # What the script prints is not for the reader of a verdict.
    assert "Traceback" not in done.stderr


def test_a_sick_script_ends_with_1_and_can_be_judged_again(
    lossleuth: Command, tmp_path: Path, script: Path
) -> None:
    options = ("--no-trials", "--json", "--steps", "8", "--out", tmp_path / "out")
    done = lossleuth("run", *options, script, "0.0")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "out" / "verdict.json").read_text())
    first = found["causes"][0]
    assert (first["id"], first["status"]) == ("lr_zero", "proven")
    assert first["where"]["file"] == str(script)
    # `examine` is the verb's old name.
    for verb in ("rejudge", "examine"):
        again = lossleuth(verb, "--json", tmp_path / "out")
        assert again.returncode == 1
        assert json.loads(again.stdout)["causes"] == found["causes"]
    words = lossleuth("rejudge", tmp_path / "out")
    assert words.stdout.startswith("Proven. The cause is lr_zero: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "gone.py"), "no file at"),
        (("run", "--only", "bad_luck", "x.py"), "ids of causes"),
        (("run", "--steps", "0", "x.py"), "--steps"),
        (("run", "x.py"), "did not import torch"),
        (("run",), "Missing argument"),
        (("rejudge", "gone"), "expected "),
        (("rejudge",), "Missing argument"),
        (("explain", "bad_luck"), "see `lossleuth causes`"),
    ],
)
def test_what_cannot_be_carried_out_ends_with_2_and_a_sentence(
    lossleuth: Command, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "x.py").write_text("x = 1\n")
    done = lossleuth(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_causes_are_listed_and_explained(lossleuth: Command) -> None:
    listed = lossleuth("causes")
    assert listed.returncode == 0
    assert [line.split()[1] for line in listed.stdout.splitlines()] == [c.id for c in causes()]
    page = lossleuth("explain", "lr_zero")
    assert page.returncode == 0
    assert "When this verdict is wrong" in page.stdout


def test_cause_pages_are_written(lossleuth: Command, tmp_path: Path) -> None:
    done = lossleuth("causes", "--write", "pages")
    assert (done.returncode, done.stderr) == (0, "")
    written = sorted(path.stem for path in (tmp_path / "pages").iterdir())
    assert written == sorted([*(c.id for c in causes()), "README"])
    assert done.stdout == f"{len(written)} pages written to pages\n"


def test_an_interruption_ends_with_a_verdict_and_leaves_nothing_behind(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    command = [sys.executable, "-m", "lossleuth", "run", "--out", "out", str(script)]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    output = tmp_path / "out" / "observed" / "output.txt"
    for _ in range(600):
        if output.exists() and output.read_text().strip():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, progress = process.communicate(timeout=30)
    assert process.returncode == 0
    assert said.startswith("Cannot tell. ")
    assert "interrupted: judging what was seen so far" in progress
    assert json.loads((tmp_path / "out" / "verdict.json").read_text())["status"] == "cannot_tell"
    state = Path(f"/proc/{output.read_text().strip()}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"
