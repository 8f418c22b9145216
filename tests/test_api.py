"""Examining from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lossleuth
from lossleuth.types.judgement import Status


def batches() -> list[Any]:
    """Rows that count up from anywhere: a token tells the next."""
    generator = torch.Generator().manual_seed(0)
    return list((torch.arange(9) + torch.randint(0, 8, (30, 8, 1), generator=generator)) % 8)


def small(rate: float) -> tuple[nn.Module, torch.optim.Optimizer, list[Any]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(8, 16), nn.Linear(16, 8))
    return model, torch.optim.Adam(model.parameters(), lr=rate), batches()


def step(model: Any, optimizer: Any, batch: Any) -> None:
    loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def test_a_sound_step_is_healthy_and_left_as_it_was() -> None:
    model, optimizer, data = small(0.1)
    before = [p.detach().clone() for p in model.parameters()]
    lossleuth.assert_healthy(step, model, optimizer, data, steps=30)
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    assert optimizer.state_dict()["state"] == {}


def test_a_step_that_was_not_tried_is_not_called_healthy() -> None:
    found = lossleuth.examine(step, *small(0.1), steps=30, trials=False)
    assert (found.status, found.ranked) == ("cannot_tell", [])
    assert found.notes[0].startswith("it was not tried")


def test_a_step_with_a_fault_fails_with_the_verdicts_words() -> None:
    with pytest.raises(AssertionError, match="The cause is lr_zero"):
        lossleuth.assert_healthy(step, *small(0.0), steps=10, trials=False)


def test_a_verdict_is_returned_with_every_cause_in_it() -> None:
    found = lossleuth.examine(step, *small(0.0), steps=10, trials=False)
    assert isinstance(found, lossleuth.Verdict)
    assert found.judgements["lr_zero"].status is Status.PROVEN
    assert found.exit_code == 1
    assert found.of(Status.ERRORED) == []


def test_a_script_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lossleuth.BadInput, match="no file at"):
        lossleuth.run(tmp_path / "gone.py", out=tmp_path / "out")
