"""How much data a batch was taken from."""

from __future__ import annotations

import torch
from steps import VOCABULARY, batch, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.data import DataSize
from lossleuth.probes.data.data_size import data_size
from lossleuth.tape.roles.roles import find_roles


def found(tokens: Tensor, choose: object = lambda tokens: tokens) -> DataSize | None:
    def loss_of(model: nn.Module, _tokens: Tensor) -> Tensor:
        rows = choose(tokens)  # type: ignore[operator]  # a function of tokens
        return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())

    window = recorded_step(loss_of)
    return data_size(window, find_roles(window))


def test_a_batch_by_itself_is_all_there_is() -> None:
    assert found(batch()) == DataSize(batch().numel())


def test_rows_chosen_within_the_step_lead_to_the_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    data = torch.randint(0, VOCABULARY, (500, 9), generator=generator)
    assert found(data, lambda data: data[torch.tensor([3, 1, 4])]) == DataSize(4500)
    stream = data.flatten()

    def windows(stream: Tensor) -> Tensor:
        return torch.stack([stream[i : i + 9] for i in (5, 90, 700)])

    assert found(stream, windows) == DataSize(4500)


def test_a_view_of_a_larger_memory_leads_to_that() -> None:
    data = torch.randint(0, VOCABULARY, (100, 9), generator=torch.Generator().manual_seed(0))
    assert found(data[40:43]) == DataSize(900)


def test_without_tokens_nothing_is_known() -> None:
    window = recorded_step(lambda model, tokens: model(tokens).square().mean())
    assert data_size(window, None) is None
    assert data_size(window, find_roles(window)) is None
