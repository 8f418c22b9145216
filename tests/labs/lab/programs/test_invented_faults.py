"""Faults of no cause do what they say, and nothing that a cause covers."""

from __future__ import annotations

import pytest
import torch
from small_hosts import differs, planted_in, small

from lossleuth.labs.lab.programs.planting import Planted, fault_of, planted

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("host", "name"), planted_in("invented_faults.py"))
def test_it_changes_what_the_host_does(host: str, name: str) -> None:
    assert differs(host, name)


def test_names_change_from_batch_to_batch_and_the_next_token_stays_the_next() -> None:
    parts = planted(small("plain"), [Planted(fault_of("tokens_renamed"), None)])
    inputs_BT, targets_BT = next(parts.batches(parts.settings))
    assert torch.equal(inputs_BT[:, 1:], targets_BT[:, :-1])
    healthy = small("plain")
    assert not torch.equal(inputs_BT, next(healthy.batches(healthy.settings)).inputs_BT)


def test_the_weights_of_the_start_come_back() -> None:
    parts = planted(small("plain"), [Planted(fault_of("weights_restored"), 3)])
    model = torch.nn.Linear(2, 1)
    start = model.weight.detach().clone()
    for step in (1, 2, 3):
        parts.before_update(model, None)
        assert torch.equal(model.weight, start) is (step in (1, 3))
        with torch.no_grad():
            model.weight.add_(1.0)


def test_no_score_is_much_larger_than_another() -> None:
    parts = planted(small("plain"), [Planted(fault_of("scores_squashed"), 0.1)])
    tokens_BT = next(parts.batches(parts.settings)).inputs_BT
    assert parts.forward(parts.model(parts.settings), tokens_BT).abs().max() <= 0.1
