"""Founding case 1 shows its symptom, and no learning rate cures it."""

from __future__ import annotations

import pytest
import torch
from faults import asked, mean

from lossleuth.labs.cases import rising_loss
from lossleuth.labs.cases.hand_written_stack import Transformer
from lossleuth.labs.cases.loss_kernel import cross_entropy
from lossleuth.labs.cases.repaired_stack import REPAIRS, parts
from lossleuth.labs.cases.text import ALPHABET, SAMPLE, encode
from lossleuth.labs.cases.windows import Windows


def overfitted(rate: float, steps: int, *repairs: str) -> float:
    """What is left of the loss of one batch, as a share of its first value, at its lowest."""
    torch.manual_seed(0)
    model = Transformer(len(ALPHABET), parts=parts(repairs))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    inputs_BT, targets_BT = Windows(encode(SAMPLE)).batch(0)
    losses = []
    for _ in range(steps):
        loss = cross_entropy(model(inputs_BT), targets_BT)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return min(losses) / losses[0]


def test_two_runs_print_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    first = rising_loss.train(asked(20))
    said = capsys.readouterr().out
    assert rising_loss.train(asked(20)) == first
    assert capsys.readouterr().out == said
    assert "step   20  loss" in said and "sample: " in said


def test_the_loss_begins_a_little_above_ln_v() -> None:
    assert rising_loss.train(asked(1))[0] == pytest.approx(3.9, abs=0.2)


def test_the_repaired_program_overfits_one_batch_at_the_rate_that_was_blamed() -> None:
    assert overfitted(1e-3, 60, *REPAIRS) < 0.05


@pytest.mark.slow
def test_the_loss_falls_rises_and_wanders() -> None:
    losses = rising_loss.train(asked(400))
    lowest, highest = mean(losses[80:100]), mean(losses[140:160])
    assert lowest < 2.2 and highest > 2.9
    assert 2.5 < mean(losses[200:]) < 3.1


@pytest.mark.slow
def test_the_repaired_program_learns_at_the_same_rate() -> None:
    losses = rising_loss.train(asked(400, *REPAIRS))
    assert losses[0] > 3.7 and mean(losses[-20:]) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-3, 1e-4, 1e-5])
def test_no_rate_overfits_one_batch(rate: float) -> None:
    assert overfitted(rate, 300) > 0.05
