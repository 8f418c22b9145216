"""Faulty data is what its fault says."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from small_hosts import differs, planted_in, small

from lossleuth.labs.lab.programs.made_up_text import PAD
from lossleuth.labs.lab.programs.planting import Planted, fault_of, planted
from lossleuth.labs.lab.programs.training_parts import IGNORED, Batch, Parts

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("host", "name"), planted_in("data_faults.py"))
def test_it_changes_what_the_host_does(host: str, name: str) -> None:
    assert differs(host, name)


def parts_with(name: str, dose: float | None = None, host: str = "plain") -> Parts:
    return planted(small(host), [Planted(fault_of(name), dose)])


def batch(name: str, dose: float | None = None, number: int = 1) -> Batch:
    parts = parts_with(name, dose)
    return next(islice(parts.batches(parts.settings), number - 1, None))


@pytest.mark.parametrize("offset", [2, 0, -1])
def test_targets_are_the_inputs_at_another_offset(offset: int) -> None:
    inputs_BT, targets_BT = batch("label_offset", offset)
    assert inputs_BT.shape == targets_BT.shape
    if offset > 0:
        assert torch.equal(inputs_BT[:, offset:], targets_BT[:, :-offset])
    elif offset < 0:
        assert torch.equal(inputs_BT[:, :offset], targets_BT[:, -offset:])
    else:
        assert torch.equal(inputs_BT, targets_BT)


def test_every_third_batch_has_no_target() -> None:
    assert (batch("labels_all_masked", 3, number=3).targets_BT == IGNORED).all()
    assert (batch("labels_all_masked", 3, number=2).targets_BT != IGNORED).all()


@pytest.mark.parametrize("dose", [0.5, 0.25, 0.1])
def test_about_so_much_of_the_targets_is_padding(dose: float) -> None:
    parts = parts_with("pad_in_loss", dose)
    batches = list(islice(parts.batches(parts.settings), 50))
    share = torch.cat([b.targets_BT for b in batches]).eq(PAD).double().mean().item()
    assert share == pytest.approx(dose, abs=0.15) and share > 0


def test_targets_come_from_other_rows() -> None:
    healthy = small("plain")
    true_BT = next(healthy.batches(healthy.settings)).targets_BT
    noisy_BT = batch("label_noise", 1.0).targets_BT
    assert not (true_BT == noisy_BT).all(1).any()
    assert sorted(true_BT.tolist()) == sorted(noisy_BT.tolist())
    half_BT = batch("label_noise", 0.5).targets_BT
    assert (true_BT == half_BT).all(1).sum() == 2


def test_batches_come_again_after_a_few() -> None:
    first, third, fourth = (batch("repeated_batch", 3, number=n).inputs_BT for n in (1, 3, 4))
    assert torch.equal(first, fourth) and not torch.equal(first, third)
