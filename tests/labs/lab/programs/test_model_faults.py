"""Faulty forward passes are what their faults say."""

from __future__ import annotations

import pytest
import torch
from small_hosts import differs, module, planted_in, small

from lossleuth.labs.lab.cells import HOSTS
from lossleuth.labs.lab.programs.planting import Planted, fault_of, planted

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("host", "name"), planted_in("model_faults.py"))
def test_it_changes_what_the_host_does(host: str, name: str) -> None:
    assert differs(host, name)


def moved(host: str, name: str, row: int, at: int, dose: float | None = None) -> torch.Tensor:
    """Which logits move, by row and position, if one token is changed."""
    parts = planted(small(host), [Planted(fault_of(name), dose)])
    model = module(host).made(parts).eval()
    tokens_BT = next(parts.batches(parts.settings)).inputs_BT
    other_BT = tokens_BT.clone()
    other_BT[row, at] = other_BT[row, at] % 63 + 1
    difference_BTV = parts.forward(model, tokens_BT) - parts.forward(model, other_BT)
    return difference_BTV.abs().amax(-1) > 1e-6


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("dose", "first"), [(32, 0), (1, 5)])
def test_later_tokens_are_seen(host: str, dose: float, first: int) -> None:
    moves_T = moved(host, "future_leak", 0, 6, dose)[0]
    assert moves_T[first] and not moves_T[:first].any()


@pytest.mark.parametrize("host", HOSTS)
def test_other_rows_are_seen(host: str) -> None:
    assert moved(host, "batch_leak", 0, 6)[1:, 6:].any(1).all()


@pytest.mark.parametrize("host", HOSTS)
def test_the_input_is_not_seen_at_all(host: str) -> None:
    assert not moved(host, "input_ignored", 0, 6).any()


@pytest.mark.parametrize("host", HOSTS)
def test_layers_in_a_plain_list_are_used_and_not_trained(host: str) -> None:
    parts = planted(small(host), [Planted(fault_of("unregistered_parameters"), None)])
    model = module(host).made(parts)
    owner, name = parts.stack(model)
    layers = getattr(owner, name)
    known = {id(p) for p in model.parameters()}
    assert isinstance(layers, list) and len(layers) == parts.settings.layers
    assert not any(id(p) in known for p in layers[0].parameters())


@pytest.mark.parametrize("host", HOSTS)
def test_only_the_token_itself_is_seen(host: str) -> None:
    moves_T = moved(host, "past_ignored", 0, 6)[0]
    assert moves_T[6] and not moves_T[7:].any()
