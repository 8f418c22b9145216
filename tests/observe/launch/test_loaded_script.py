"""Runs that are forked from a process in which the script has loaded everything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lossleuth.observe.launch.executor import OUTPUT, Background, RunOutcome, RunSpec
from lossleuth.observe.launch.loaded_script import LoadedScript, has_memory_beside
from lossleuth.observe.launch.program import Program
from lossleuth.record.read import Record
from lossleuth.types.change import Change

SCRIPT = """
import os, sys
import numpy as np
import torch
from torch import nn

torch.manual_seed(3)
with open("data.txt") as stream:
    first = stream.readline()
    with open("loads.txt", "a") as loads:
        loads.write("loaded ")
    words = nn.Embedding(7, 8)
    model = nn.Sequential(words, nn.Dropout(0.1), nn.Linear(8, 7))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    {standing}
    for step in range(12):
        line = stream.readline()
        tokens = torch.tensor([int(c) for c in line.split()]) + int(3 * np.random.rand()) % 2
        loss = nn.functional.cross_entropy(model(tokens[:-1]), tokens[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        with open("saved.txt", "a") as saved:
            saved.write(f"{{step}} ")
        print(open("loads.txt").read().count("loaded"), open("saved.txt").read().split()[-1])
"""
LR = Change.of("scale_lr", factor=3.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's that does not hold the scratch folders of runs."""
    temporary, own = tmp_path / "temporary", tmp_path / "own"
    temporary.mkdir()
    own.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.chdir(own)
    lines = [" ".join(str((3 * i + j * j) % 6) for j in range(9)) for i in range(40)]
    (own / "data.txt").write_text("\n".join(lines))
    return own


def losses(outcome: RunOutcome) -> list[float]:
    with Record.open(outcome.plan.directory) as record:
        return [float(x) for x in record.series("loss")]


def plans(folder: Path, prefix: str, forked_after: int | None) -> list[RunSpec]:
    return [
        RunSpec(
            folder / f"runs/{prefix}{i}",
            8,
            60.0,
            loss_steps=(0, 1, 5, 6, 7),
            seed_shift=shift,
            changes=changes,
            forked_after=forked_after,
        )
        for i, (shift, changes) in enumerate([(0, ()), (1000, ()), (0, (LR,)), (1000, (LR,))])
    ]


def carried_out(
    folder: Path, forked_after: int | None, standing: str = ""
) -> tuple[list[RunOutcome], str | None]:
    """Four runs after a first one, and why none of them went on from a loaded script, if so."""
    script = folder / "train.py"
    script.write_text(SCRIPT.format(standing=standing))
    background = Background(Program(script), 2, forks=True)
    try:
        (first,) = background.run([RunSpec(folder / "runs/first", 8, 60.0)])
        assert first.code == 0, (first.plan.directory / OUTPUT).read_text()
        name = "whole" if forked_after is None else f"forked{forked_after}"
        return background.run(plans(folder, name, forked_after)), background.refusal
    finally:
        background.close()


def test_a_run_that_goes_on_from_a_loaded_script_is_the_run_to_the_last_bit(folder: Path) -> None:
    whole, _ = carried_out(folder, None)
    forked, refusal = carried_out(folder, 2)
    assert refusal is None
    assert [o.went_on for o in whole] == [False] * 4
    assert [o.went_on for o in forked] == [True] * 4
    assert [losses(o) for o in forked] == [losses(o) for o in whole]
    # Two seeds and a change are four different runs.
    assert len({tuple(losses(o)) for o in whole}) == 4


def test_each_run_reads_and_writes_for_itself(folder: Path) -> None:
    outcomes, _ = carried_out(folder, 2)
    for outcome in outcomes:
        said = (outcome.plan.directory / OUTPUT).read_text().splitlines()
        # Loaded once, and what one run has saved no other one sees.
        assert said[-1] == "1 7", said
    assert sorted(p.name for p in folder.iterdir()) == ["data.txt", "runs", "train.py"]


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        ("import threading; threading.Thread(target=input, daemon=True).start()", "thread"),
        ("import socket; own = socket.socket()", "socket"),
        ("schedule = type(schedule)(optimizer, lambda step: 1.0)", None),
    ],
)
def test_what_cannot_be_forked_is_run_from_its_beginning(
    folder: Path, standing: str, why: str | None
) -> None:
    later = "schedule = type(schedule)(optimizer, lambda step: 1.0)"
    outcomes, refusal = carried_out(folder, 3, f"{standing}; {later}" if why else standing)
    assert [o.went_on for o in outcomes] == [why is None] * 4
    assert (refusal is None) if why is None else (why in str(refusal))
    assert [o.code for o in outcomes] == [0] * 4
    assert all(len(losses(o)) == 8 for o in outcomes)


def test_a_script_that_makes_less_than_it_did_is_run_from_its_beginning(folder: Path) -> None:
    outcomes, refusal = carried_out(folder, 5)
    assert refusal == "it trains before it has made what it made when it was observed"
    assert [(o.went_on, o.code) for o in outcomes] == [(False, 0)] * 4


def test_a_forward_pass_that_has_begun_is_not_forked(folder: Path) -> None:
    begun = (
        "tokens = torch.tensor([1, 2, 3]); early = model(tokens);"
        " schedule = type(schedule)(optimizer, lambda step: 1.0)"
    )
    outcomes, refusal = carried_out(folder, 3, begun)
    assert refusal == "its first training step has begun"
    assert [(o.went_on, o.code) for o in outcomes] == [(False, 0)] * 4


def test_nothing_is_left_of_a_loaded_script(folder: Path) -> None:
    script = folder / "train.py"
    script.write_text(SCRIPT.format(standing=""))
    background = Background(Program(script), 2, forks=True)
    background.run([RunSpec(folder / "runs/first", 8, 60.0)])
    background.run(plans(folder, "run", 2))
    pids = [loaded.process.pid for loaded in background._loaded.values()]
    assert len(pids) == 2
    assert all(has_memory_beside(loaded) for loaded in background._loaded.values())
    background.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


class Nothing:
    """A process that has ended."""

    pid = 0

    def poll(self) -> int | None:
        return 1

    def wait(self, timeout: float) -> int:
        return 1


def test_a_process_that_ends_at_once_is_not_waited_for() -> None:
    loaded = LoadedScript(lambda _: Nothing(), "", patience=60.0)
    assert not loaded.is_loading
    assert loaded.refusal == "it did not come to its first training step"
    assert not loaded.is_ready(5.0)
    assert not has_memory_beside(loaded)
    loaded.close()
