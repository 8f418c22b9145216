"""Averaged weights."""

from __future__ import annotations

import torch
from torch import nn

from lossleuth.reference.distil.average import Average, decay


def weights(updates: int, horizon: float) -> list[float]:
    """The share that each update has in the average after so many."""
    shares: list[float] = []
    for update in range(updates):
        kept = decay(update, horizon)
        shares = [kept * share for share in shares] + [1 - kept]
    return shares


def test_the_shares_sum_to_1_and_the_start_has_none() -> None:
    for updates in (1, 5, 200):
        assert abs(sum(weights(updates, 20)) - 1) < updates * 2**-52


def test_what_is_further_back_than_the_horizon_hardly_counts() -> None:
    shares = weights(400, 20)
    assert sum(shares[:300]) < 0.01
    assert abs(shares[-1] - 1 / 20) < 1e-12


def test_a_short_run_is_a_plain_mean() -> None:
    assert max(abs(share - 1 / 7) for share in weights(7, 100)) < 1e-15


def test_a_restored_average_goes_on_bit_for_bit() -> None:
    model = nn.Linear(3, 2)
    straight, saved = Average(model, 4), {}
    for step in range(6):
        if step == 3:
            saved = {name: tensor.clone() for name, tensor in straight.tensors.items()}
        nn.init.constant_(model.weight, 0.1 * step)
        straight.update(model)
    again = Average(model, 4)
    again.restore(saved, 3)
    for step in range(3, 6):
        nn.init.constant_(model.weight, 0.1 * step)
        again.update(model)
    assert all(torch.equal(straight.tensors[name], again.tensors[name]) for name in saved)
    assert again.updates == 6


def test_a_model_takes_the_average_and_its_own_stays() -> None:
    model, twin = nn.Linear(3, 2), nn.Linear(3, 2)
    average = Average(model, 10)
    average.update(model)
    average.put_into(twin)
    assert torch.equal(twin.weight, model.weight)
    average.update(twin)
    assert average.tensors["weight"].data_ptr() != model.weight.data_ptr()
