"""A program that is observed has its batches kept, and a yardstick made of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lossleuth.examiner import measuring
from lossleuth.examiner.load_evidence import evidence_of
from lossleuth.examiner.measuring import order_for, yardstick_of
from lossleuth.findings.data import Alignment, Padding
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.yardstick import Comparison, compared
from lossleuth.observe.launch.executor import Background, RunSpec
from lossleuth.observe.launch.program import Program
from lossleuth.record.kept_batches import kept_steps
from lossleuth.run_directory import BATCHES, OUTPUT
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Step
from lossleuth.types.phases import Phase

# Counts in a circle of 16. Between what it looks up and what it says of that is one layer.
SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(16, 24), {between}, nn.Linear(24, 16))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(160):
    text = (torch.randint(0, 16, (8, 1)) + torch.arange(13)) % 16
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(repr(loss.item()))
"""


def written(folder: Path, between: str = "nn.Identity()") -> Path:
    script = folder / "train.py"
    script.write_text(SCRIPT.format(between=between))
    return script


def observed(folder: Path, script: Path, *, keeps_batches: bool = True) -> Path:
    look = folder / "look"
    plan = RunSpec(look, None, 60.0, tape=(0, 100), keeps_batches=keeps_batches)
    executor = Background(Program(script), 1)
    (finished,) = executor.run([plan])
    assert finished.code == 0
    return look


def test_losses_are_bit_identical_while_batches_are_kept(tmp_path: Path) -> None:
    script = written(tmp_path)
    look = observed(tmp_path, script)
    settings = dict(os.environ, OMP_NUM_THREADS=str(os.cpu_count()))
    bare = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, env=settings
    ).stdout
    assert (look / OUTPUT).read_text() == bare
    steps = list(kept_steps(look / BATCHES))
    assert [step.step for step in steps] == list(range(160))
    assert {m.lookups[0].shape for step in steps for m in step.micro_batches} == {(8, 12)}


@pytest.mark.parametrize(
    ("between", "is_behind"), [("nn.Identity()", False), ("nn.Threshold(1e9, 0.0)", True)]
)
def test_a_model_keeps_up_and_one_that_hears_nothing_does_not(
    tmp_path: Path, between: str, is_behind: bool
) -> None:
    look = observed(tmp_path, written(tmp_path, between))
    evidence, news = evidence_of(look), list[str]()
    found = yardstick_of(evidence, look / BATCHES, 40.0, news.append)
    assert news == ["training a plain transformer on the same batches, to compare"]
    comparison = compared(replace(evidence, yardstick=found))
    assert isinstance(comparison, Comparison), comparison
    assert (comparison.early, comparison.steps) == (False, 160)
    assert comparison.is_behind is is_behind


def test_nothing_is_kept_where_nobody_asks(tmp_path: Path) -> None:
    look = observed(tmp_path, written(tmp_path), keeps_batches=False)
    assert not (look / BATCHES).exists()
    assert yardstick_of(evidence_of(look), look / BATCHES, 9.0, pytest.fail) is None


def test_a_run_that_cannot_be_compared_costs_no_process(tmp_path: Path) -> None:
    (tmp_path / BATCHES).write_bytes(b"")
    found = yardstick_of(Evidence(), tmp_path / BATCHES, 9.0, pytest.fail)
    assert found is not None and found.why_not == "its true loss is not known"


def test_an_order_says_what_recorded_steps_know() -> None:
    recorded = RecordedStep(4, [Padding(7, 0.2, 0, 50), Alignment(1, {}, 50, 64, time_axis=0)])
    evidence = Evidence(
        steps=[Step(n) for n in range(10)],
        sizes=[30, 12],
        recorded=[recorded],
        phase=Phase(2, 2, 40, 49),
    )
    order = order_for(evidence, Path("batches"), 99.0)
    assert (order.first, order.last, order.trained) == (40, 49, 42)
    assert (order.pad, order.time_axis, order.supervised) == (7, 0, {4: 50})


@pytest.mark.parametrize(
    ("command", "words"),
    [("import time; time.sleep(60)", "not trained in time"), ("print('?')", "our fault")],
)
def test_a_process_that_hangs_or_fails_is_no_reason_against_the_run(
    monkeypatch: pytest.MonkeyPatch, command: str, words: str
) -> None:
    monkeypatch.setattr(measuring, "COMMAND", ("-c", command))
    monkeypatch.setattr(measuring, "GRACE_SECONDS", 1.0)
    evidence = Evidence(steps=[Step(0)])
    began = time.monotonic()
    found = measuring.measured(order_for(evidence, Path("batches"), time.time()), 1.0)
    assert found.why_not is not None and words in found.why_not
    assert time.monotonic() - began < 30
