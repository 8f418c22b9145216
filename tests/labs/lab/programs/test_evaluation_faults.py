"""Faulty evaluations report another number, and leave the training alone."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch
from small_hosts import module, planted_in, small

from lossleuth.labs.lab.programs import evaluation_faults
from lossleuth.labs.lab.programs.evaluation_faults import EVERY, held_back
from lossleuth.labs.lab.programs.made_up_text import PAD
from lossleuth.labs.lab.programs.planting import Planted, fault_of, planted
from lossleuth.labs.lab.programs.training_parts import IGNORED

pytestmark = pytest.mark.filterwarnings("ignore")


def run(
    host: str, name: str, capsys: pytest.CaptureFixture[str]
) -> tuple[list[float], float, float]:
    """Losses of the training, and the loss and perplexity that one evaluation reports."""
    parts = planted(small(host, steps=EVERY), [Planted(fault_of(name), None)])
    losses: list[float] = module(host).train(parts)
    found = re.search(r"evaluation: loss (\S+)  perplexity (\S+)", capsys.readouterr().out)
    assert found is not None
    return losses, float(found[1]), float(found[2])


@pytest.mark.parametrize(("host", "name"), planted_in("evaluation_faults.py"))
def test_it_changes_the_number_and_not_the_training(
    host: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    losses, loss, perplexity = run(host, name, capsys)
    sound, right, _ = run(host, "evaluated", capsys)
    assert losses == sound
    assert perplexity == pytest.approx(math.exp(loss), rel=1e-3)
    assert (abs(loss - right) > 1e-3) is (name != "evaluated")


def test_held_back_texts_end_early_in_padding_without_labels() -> None:
    settings = replace(small("plain").settings, length=24)
    batches = held_back(settings)
    assert len({int((b.targets_BT != IGNORED).sum()) for b in batches}) > 1
    for inputs_BT, targets_BT in batches:
        assert bool((inputs_BT[targets_BT == IGNORED][1:] == PAD).any())
        assert not bool((targets_BT == PAD).any())


def test_what_is_right_is_the_mean_over_all_tokens() -> None:
    torch.manual_seed(0)
    settings = small("plain").settings
    batches = held_back(settings)
    classes = settings.text.vocabulary
    found = evaluation_faults.over_all_tokens(lambda x: torch.zeros(*x.shape, classes), batches)
    assert found == pytest.approx(math.log(classes), abs=1e-6)
