"""The host of transformers' GPT-2 in an own loop: it learns, looks back only, repeats itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_hosts import losses, small

from lossleuth.lab.programs import hf_loop as host

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("rule", ["adamw", "sgd"])
def test_it_learns(rule: str) -> None:
    parts = small("hf_loop", rule, steps=120)
    found = host.train(replace(parts, settings=replace(parts.settings, rows=8, width=32)))
    assert sum(found[-10:]) / 10 < found[0] - 0.8


def test_it_is_the_same_every_time() -> None:
    assert losses("hf_loop") == losses("hf_loop")


def test_its_two_halves_make_the_whole() -> None:
    parts = small("hf_loop")
    model = host.made(parts).eval()
    tokens_BT = next(parts.batches(parts.settings)).inputs_BT
    halves = parts.decode(model, parts.embed(model, tokens_BT))
    torch.testing.assert_close(halves, parts.forward(model, tokens_BT))


def test_a_position_does_not_see_later_ones() -> None:
    parts = small("hf_loop")
    model = host.made(parts).eval()
    tokens_BT = next(parts.batches(parts.settings)).inputs_BT
    other_BT = tokens_BT.clone()
    other_BT[:, 6] = (other_BT[:, 6] + 1) % 64
    before, after = parts.forward(model, tokens_BT), parts.forward(model, other_BT)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6], after[:, 6])


def test_its_layers_are_where_it_says() -> None:
    parts = small("hf_loop")
    owner, name = parts.stack(host.made(parts))
    assert len(getattr(owner, name)) == parts.settings.layers
