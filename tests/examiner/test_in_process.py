"""Runs of a step function in this process."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lossleuth.examiner.in_process import InProcess
from lossleuth.observe.launch.executor import RunSpec
from lossleuth.record.read import Record
from lossleuth.types.change import Change


def step(model: Any, optimizer: Any, batch: Any) -> None:
    loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Bench:
    """A model, its optimizer and batches."""

    def __init__(self, batches: int = 6) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Embedding(8, 4), nn.Dropout(0.1), nn.Linear(4, 8))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.batches = [torch.randint(0, 8, (4, 6)) for _ in range(batches)]

    def executor(self, with_step: Any = step) -> InProcess:
        return InProcess(with_step, self.model, self.optimizer, self.batches)


def losses(folder: Path) -> list[float]:
    with Record.open(folder) as record:
        return [float(x) for x in record.series("loss")]


def plan(folder: Path, name: str, **more: Any) -> RunSpec:
    # Only losses: nothing is looked for in files.
    return RunSpec(folder / name, 4, 20.0, **{"loss_steps": (0,), **more})


def test_every_run_starts_from_the_same_place(tmp_path: Path) -> None:
    executor = Bench().executor()
    finished: list[object] = []
    found = executor.run([plan(tmp_path, "a"), plan(tmp_path, "b")], on_finished=finished.append)
    assert [(f.code, f.problem) for f in found] == [(0, None)] * 2
    assert finished == found
    assert losses(tmp_path / "a") == losses(tmp_path / "b")
    assert len(losses(tmp_path / "a")) == 4


def test_other_seeds_see_other_batches_and_changes_change(tmp_path: Path) -> None:
    executor = Bench().executor()
    change = Change.of("scale_lr", factor=3.0)
    executor.run(
        [
            plan(tmp_path, "a"),
            plan(tmp_path, "seed", seed_shift=1000),
            plan(tmp_path, "changed", changes=(change,)),
        ]
    )
    first = losses(tmp_path / "a")
    assert losses(tmp_path / "seed")[0] != first[0]
    assert losses(tmp_path / "changed")[0] == first[0]
    assert losses(tmp_path / "changed")[1:] != first[1:]


def test_everything_is_as_before_when_it_is_over(tmp_path: Path) -> None:
    bench = Bench()
    head = bench.model[2]
    head.requires_grad_(False)
    step(bench.model, bench.optimizer, bench.batches[0])
    weights = [p.detach().clone() for p in bench.model.parameters()]
    state = bench.optimizer.state_dict()["state"][0]["exp_avg"].clone()
    drawn = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    patched = torch.autograd._engine_run_backward  # type: ignore[attr-defined]  # private
    change = Change.of("unfreeze_parameters")
    bench.executor().run([plan(tmp_path, "a", changes=(change,)), plan(tmp_path, "b")])
    assert all(torch.equal(p, w) for p, w in zip(bench.model.parameters(), weights, strict=True))
    assert bench.optimizer.state_dict()["state"][0]["exp_avg"].equal(state)
    assert not any(p.requires_grad for p in head.parameters())
    assert random.getstate() == drawn[0]
    assert np.random.get_state()[1].tolist() == drawn[1]
    assert torch.get_rng_state().equal(drawn[2])
    assert torch.autograd._engine_run_backward is patched  # type: ignore[attr-defined]  # private


def test_few_batches_are_used_again(tmp_path: Path) -> None:
    Bench(batches=2).executor().run([plan(tmp_path, "a")])
    assert len(losses(tmp_path / "a")) == 4


def test_a_change_that_cannot_be_made_is_in_the_record(tmp_path: Path) -> None:
    change = Change.of("skip_softmax")
    Bench().executor().run([plan(tmp_path, "a", changes=(change,))])
    with Record.open(tmp_path / "a") as record:
        assert record.ended is not None
        assert "no softmax was found before the loss" in record.ended["error"]


def test_what_there_is_no_time_for_is_said(tmp_path: Path) -> None:
    (found,) = Bench().executor().run([plan(tmp_path, "a")], until=-math.inf)
    assert (found.code, found.problem) == (None, "no time left")


def test_an_error_of_the_step_function_is_its_own_and_leaves_nothing_of_ours(
    tmp_path: Path,
) -> None:
    bench = Bench()
    weights = [p.detach().clone() for p in bench.model.parameters()]

    def failing(model: Any, optimizer: Any, batch: Any) -> None:
        step(model, optimizer, batch)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.executor(failing).run([plan(tmp_path, "a")])
    assert all(torch.equal(p, w) for p, w in zip(bench.model.parameters(), weights, strict=True))
    assert "item" not in vars(torch.Tensor)
