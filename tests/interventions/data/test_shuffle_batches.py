"""Samples in another order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from changed_runs import Ran, with_changes
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)

from lossleuth.interventions.data.shuffle_batches import SEED, ShuffleBatches

SIZE, EPOCHS = 24, 2
DATA = TensorDataset(torch.arange(2.0 * SIZE).reshape(SIZE, 2).sin())


def orders() -> list[list[int]]:
    generator = torch.Generator().manual_seed(SEED)
    return [torch.randperm(SIZE, generator=generator).tolist() for _ in range(EPOCHS)]


class Known:
    """A sampler that gives orders that are known beforehand."""

    def __init__(self) -> None:
        self._orders = iter(orders())

    def __iter__(self) -> Iterator[int]:
        return iter(next(self._orders))

    def __len__(self) -> int:
        return SIZE


def training(**options: Any) -> Ran:
    """Two epochs; the random numbers that are drawn in between are part of it."""
    torch.manual_seed(0)
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.3)
    loader: DataLoader[Any] = DataLoader(DATA, **options)
    losses = []
    for _ in range(EPOCHS):
        for (rows,) in loader:
            loss = (weight - rows + 0.1 * torch.rand(2)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return Ran(losses, weight.detach())


@pytest.mark.parametrize("options", [{"batch_size": 5}, {"batch_size": 4, "drop_last": True}, {}])
def test_samples_in_order_become_samples_in_random_order(options: dict[str, Any]) -> None:
    expected = training(sampler=Known(), **options)
    assert training(**options).distance(expected) > 1e-3
    assert with_changes(lambda: training(**options), ShuffleBatches()).is_exactly(expected)


def test_a_sequential_sampler_by_name_is_shuffled_as_well() -> None:
    def own(sampler: Any) -> Ran:
        return training(batch_sampler=BatchSampler(sampler, 4, drop_last=False))

    expected = own(Known())
    assert not own(SequentialSampler(DATA)).is_exactly(expected)
    found = with_changes(lambda: own(SequentialSampler(DATA)), ShuffleBatches())
    assert found.is_exactly(expected)


def test_what_is_random_already_is_left_as_it_is() -> None:
    for options in ({"shuffle": True}, {"sampler": RandomSampler(DATA)}):

        def own(options: dict[str, Any] = options) -> Ran:
            return training(batch_size=4, **options)

        assert with_changes(own, ShuffleBatches()).is_exactly(own())


class Stream(IterableDataset[Any]):
    """Nobody can choose from this one."""

    def __iter__(self) -> Iterator[Any]:
        return (DATA[i] for i in range(SIZE))


def test_what_cannot_be_reached_is_left_as_it_is() -> None:
    def streamed() -> Ran:
        seen = [rows for (rows,) in DataLoader(Stream(), batch_size=4)]
        return Ran([], torch.cat(seen))

    def own_order() -> Ran:
        return training(batch_size=4, sampler=list(reversed(range(SIZE))))

    assert with_changes(streamed, ShuffleBatches()).is_exactly(streamed())
    assert with_changes(own_order, ShuffleBatches()).is_exactly(own_order())


def test_evaluation_goes_through_its_data_in_order() -> None:
    def program() -> Ran:
        with torch.no_grad():
            return Ran([], torch.cat([rows for (rows,) in DataLoader(DATA, batch_size=4)]))

    assert with_changes(program, ShuffleBatches()).is_exactly(program())


def test_the_program_still_reads_its_own_sampler() -> None:
    def program() -> Ran:
        loader: DataLoader[Any] = DataLoader(DATA, batch_size=4)
        assert type(loader.sampler) is SequentialSampler
        return Ran([float(len(loader))], torch.zeros(1))

    assert with_changes(program, ShuffleBatches()).losses == [6.0]
