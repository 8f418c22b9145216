"""Founding case 2: every step is clipped, and that is not what is wrong."""

from __future__ import annotations

import pytest
import torch
from faults import asked, mean

from lossleuth.labs.cases import always_clipped
from lossleuth.labs.cases.repaired_stack import REPAIRS


def test_every_step_is_clipped_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    steps = always_clipped.train(asked(40))
    assert all(step.norm > always_clipped.CLIP for step in steps)
    assert "clipped 100%" in capsys.readouterr().out


def test_the_repaired_program_is_clipped_as_well() -> None:
    steps = always_clipped.train(asked(20, *REPAIRS))
    assert mean([step.norm > always_clipped.CLIP for step in steps]) > 0.9


def test_adam_does_not_care_for_a_constant_factor() -> None:
    moved = []
    for factor in (1.0, 0.1):
        weight = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
        optimizer = torch.optim.Adam([weight], lr=5e-5, eps=1e-30)
        generator = torch.Generator().manual_seed(0)
        for _ in range(10):
            weight.grad = factor * torch.randn(5, dtype=torch.float64, generator=generator)
            optimizer.step()
        moved.append(weight.detach() - 1)
    torch.testing.assert_close(moved[0], moved[1])
    assert float(moved[0].abs().max()) > 0
