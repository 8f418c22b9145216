"""What looks sick and is sound: it is odd, and it learns."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from small_hosts import differs, losses, module, small

from lossleuth.labs.lab.programs.healthy_oddities import Experts
from lossleuth.labs.lab.programs.planting import Planted, fault_of, oddities, planted

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = [odd.id for odd in oddities()]
# These do something later than a few steps can show.
LATE = {"single_spike", "sawtooth", "unused_by_design"}


@pytest.mark.parametrize("name", sorted(set(NAMES) - LATE))
def test_it_changes_what_the_host_does(name: str) -> None:
    assert differs("plain", name)


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_all_the_same(name: str) -> None:
    parts = small("plain", steps=160)
    parts = replace(parts, settings=replace(parts.settings, rows=8, width=32, rate=1e-2))
    parts = planted(parts, [Planted(fault_of(name), None)])
    found = module("plain").train(parts)
    first, last = sum(found[:10]) / 10, sum(found[-10:]) / 10
    if name == "rising_lesson":
        # What is printed rises by its weight; without it, it falls.
        last /= 1 + 150 / 40
    assert last < 0.98 * first


def test_a_spike_is_one_batch_and_a_saw_has_teeth() -> None:
    found = losses("plain", "single_spike", dose=4)
    assert found[4] > max(found[3], found[5]) or found[4] != losses("plain")[4]
    parts = planted(small("plain"), [Planted(fault_of("sawtooth"), 3)])
    batches = parts.batches(parts.settings)
    seen = [next(batches).inputs_BT for _ in range(6)]
    assert torch.equal(seen[0], seen[3]) and not torch.equal(seen[0], seen[1])


def test_the_scaler_skips_its_first_steps_and_then_none() -> None:
    found, plain = losses("plain", "scaler_skips"), losses("plain")
    # Until it has found its scale, the weights stay what they were.
    assert found[0] == plain[0] and found[1] != plain[1]
    assert all(map(math.isfinite, found))


def test_an_expert_answers_for_its_positions_alone() -> None:
    torch.manual_seed(0)
    layer, x = Experts(8), torch.randn(2, 5, 8)
    chosen = layer.router(x).softmax(-1).argmax(-1)
    number = int(chosen[0, 0])
    share = layer.router(x).softmax(-1)[0, 0, number]
    expected = share * layer.experts[number](x[0, 0])
    torch.testing.assert_close(layer(x)[0, 0], expected)
