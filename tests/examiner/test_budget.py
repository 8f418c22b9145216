"""The budget is a promise, whatever the script or a probe of ours does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

# What the command takes beside its budget: the start of Python and the report, some 1.5 s on a
# machine with other work.
START_SECONDS = 5.0
MADE = """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
"""
STEP = """
    tokens = torch.randint(0, 16, (4, 9))
    scores = model(tokens[:, :-1]).flatten(0, 1)
    # The target is the input.
    loss = torch.nn.functional.cross_entropy(scores, tokens[:, :-1].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TRAINING = f"""
import torch
{MADE}
for step in range({{steps}}):
{STEP}
"""
# The process cannot be interrupted: signals are blocked, and the call keeps the interpreter.
BLOCKED = """
import ctypes, signal
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
ctypes.PyDLL(None).sleep(600)
"""
FORKING = """
import os, time
if os.fork() == 0 and os.fork() == 0:
    os.setsid()
time.sleep(600)
"""
# Goes on from what an earlier run of it has saved.
RESUMING = f"""
import pathlib, torch
{MADE}
saved, steps = pathlib.Path(__file__).with_name("saved.pt"), 60
def step():
{STEP}
if saved.exists():
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    with torch.no_grad():
        # In place as well: its own copy, as a moving average that takes the place of the weights.
        for weight, kept in zip(model.parameters(), state["model"].values()):
            weight.copy_(kept)
for _ in range(steps):
    step()
if not saved.exists():
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, saved)
"""
# Puts a probe that never ends in the place of one of ours.
ENDLESS = """
import torch
import lossleuth.probes.run as run
from lossleuth.findings.model import Leaks
from lossleuth.probes.probe import Probe
def endless(analysis):
    while True:
        pass
known = tuple(Probe(Leaks, endless) if p.finds is Leaks else p for p in run.probes())
run.probes = lambda: known
"""


def examined(folder: Path, source: str, budget: float) -> tuple[int, dict[str, Any], str]:
    """Exit code, verdict and last word; the time it took is checked."""
    script = folder / "train.py"
    script.write_text(source)
    command = ["run", "--json", "--budget", str(budget), "--out", str(folder / "run"), str(script)]
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "lossleuth", *command], capture_output=True, text=True, check=False
    )
    assert time.monotonic() - began < 1.1 * budget + START_SECONDS
    verdict = json.loads(ended.stdout) if ended.stdout else {}
    assert verdict.get("seconds", 0.0) < 1.1 * budget
    return ended.returncode, verdict, ended.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "source",
    ["import time; time.sleep(600)", BLOCKED, FORKING],
    ids=["sleeping", "blocked", "forking"],
)
def test_a_script_that_never_comes_to_a_step_is_refused_in_time(
    tmp_path: Path, source: str
) -> None:
    code, _, said = examined(tmp_path, source, 4.0)
    assert code == 2
    assert "no training step in train.py (it did not finish within" in said


@pytest.mark.slow
@pytest.mark.parametrize("end", [BLOCKED, FORKING], ids=["blocked", "forking"])
def test_a_script_that_blocks_after_some_steps_is_judged_by_them(tmp_path: Path, end: str) -> None:
    code, verdict, _ = examined(tmp_path, TRAINING.format(steps=20) + end, 40.0)
    assert code == 1
    # The last ones were not written yet.
    assert 10 <= verdict["steps"] <= 20
    assert [c["id"] for c in verdict["causes"] if c["status"] == "proven"] == ["label_offset"]


@pytest.mark.slow
def test_a_script_that_resumes_from_a_checkpoint_is_judged_in_time(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(RESUMING)
    subprocess.run([sys.executable, str(script)], check=True)
    assert (tmp_path / "saved.pt").exists()
    code, verdict, _ = examined(tmp_path, RESUMING, 40.0)
    assert code == 1
    assert verdict["steps"] == 60 and verdict["errored"] == []
    assert [c["id"] for c in verdict["causes"] if c["status"] == "proven"] == ["label_offset"]


@pytest.mark.slow
def test_a_probe_that_never_ends_costs_one_result(tmp_path: Path) -> None:
    code, verdict, _ = examined(tmp_path, ENDLESS + TRAINING.format(steps=60), 60.0)
    assert code == 1
    assert [c["id"] for c in verdict["causes"] if c["status"] == "proven"] == ["label_offset"]
    leak = verdict["details"]["future_leak"]
    assert leak["status"] == "untested"
    assert "lossleuth failed to measure the leaks: stopped after" in leak["because"]
