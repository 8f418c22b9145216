"""The same batch again and again."""

from __future__ import annotations

import torch
from changed_runs import Ran, batch, trained, with_changes
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lossleuth.interventions.data.freeze_batch import FreezeBatch


def test_where_the_batch_is_always_the_same_nothing_changes() -> None:
    def same() -> Ran:
        return trained(batch_of=lambda step: batch(0))

    assert with_changes(same, FreezeBatch()).is_exactly(same())


def test_other_batches_become_the_first() -> None:
    same = trained(batch_of=lambda step: batch(0))
    assert not trained().is_exactly(same)
    assert with_changes(trained, FreezeBatch()).is_exactly(same)


def test_what_a_data_loader_gives_is_frozen_and_never_shared() -> None:
    seen: list[torch.Tensor] = []

    def program() -> Ran:
        weight = torch.zeros(2, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        data = torch.arange(12.0).reshape(6, 2)
        for (rows,) in DataLoader(TensorDataset(data), batch_size=2):
            seen.append(rows.clone())
            optimizer.zero_grad()
            (weight - rows).square().sum().backward()
            optimizer.step()
            # What a program does to its batch must not reach the next one.
            rows.zero_()
        return Ran([], weight.detach())

    with_changes(program, FreezeBatch())
    assert [rows.tolist() for rows in seen] == [[[0, 1], [2, 3]]] * 3


def test_evaluation_sees_its_own_data() -> None:
    torch.manual_seed(0)
    table, head = nn.Embedding(11, 4), nn.Linear(4, 11)
    held_back: list[float] = []

    def program() -> Ran:
        optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.0)
        losses = []
        for step in range(3):
            tokens = batch(step)
            loss = F.cross_entropy(head(table(tokens)).flatten(0, 1), tokens.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            with torch.no_grad():
                other = batch(100 + step)
                held_back.append(
                    F.cross_entropy(head(table(other)).flatten(0, 1), other.flatten()).item()
                )
        return Ran(losses, head.weight.detach())

    found = with_changes(program, FreezeBatch())
    assert len(set(found.losses)) == 1
    assert len(set(held_back)) == 3


def test_a_batch_of_another_shape_is_let_through() -> None:
    def shrinking() -> Ran:
        return trained(steps=4, batch_of=lambda step: batch(0)[: 4 - step])

    assert with_changes(shrinking, FreezeBatch()).is_exactly(shrinking())
