"""Tokens that are looked up beside those that the targets follow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from steps import recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.model import OtherInput
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.model.other_input import other_inputs

VOCABULARY, WIDTH = 23, 16


class Translator(nn.Module):
    """Each position of the target gets the source's token at the same position."""

    def __init__(self, take: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.take = take
        self.table, self.kinds = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2, WIDTH)
        self.encoder, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        memory = self.take(torch.tanh(self.encoder(self.table(source))))
        kinds = self.kinds((tokens > 5).long())
        scores: Tensor = self.head(self.table(tokens) + kinds + memory)
        return scores


def found_with(take: Callable[[Tensor], Tensor], updates: int = 0) -> list[OtherInput]:
    """What is found once so many updates were made; the target's next token is the source's."""
    torch.manual_seed(0)
    model = Translator(take)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)

    def loss_of() -> Tensor:
        texts = torch.randint(VOCABULARY, (6, 9))
        scores = model(texts[:, 1:].clone(), texts[:, :-1].clone())
        return F.cross_entropy(scores.flatten(0, 1), texts[:, 1:].clone().flatten())

    for _ in range(updates):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
    window = recorded_step(lambda _, __: loss_of())
    with Analysis(window) as analysis:
        return list(other_inputs(analysis))


def test_a_source_that_is_used_moves_logits_and_comes_to_be_worth_something() -> None:
    for updates, least in ((0, 0.0), (150, 1.0)):
        (other,) = found_with(lambda h: h, updates)
        assert other.moved > 0.01 and other.worth is not None
        assert other.worth > least or not updates
        assert other.place is not None and "test_other_input.py" in other.place


@pytest.mark.parametrize(
    "take", [lambda h: 0.0 * h, lambda h: h.masked_fill(torch.ones(9 - 1, 1).bool(), 0.0)]
)
def test_a_source_that_is_lost_moves_nothing(take: Callable[[Tensor], Tensor]) -> None:
    (other,) = found_with(take)
    assert other.moved <= other.floor
    assert other.worth == 0.0


def test_a_source_that_is_mixed_up_among_texts_is_worth_nothing() -> None:
    (other,) = found_with(lambda h: h.roll(1, 0), 150)
    assert other.moved > other.floor
    assert other.worth is not None and other.worth < 0.3


def test_a_model_of_one_text_has_no_other_input() -> None:
    with Analysis(recorded_step()) as analysis:
        assert list(other_inputs(analysis)) == []


def test_positions_that_begin_anywhere_are_no_input() -> None:
    model = nn.Embedding(VOCABULARY, WIDTH)
    table, head = nn.Embedding(40, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def loss_of(_: nn.Module, __: Tensor) -> Tensor:
        texts = torch.randint(VOCABULARY, (6, 17))
        begin = torch.randint(20, (6, 1))
        places = torch.arange(16) + begin
        scores = head(model(texts[:, :-1]) + table(places))
        return F.cross_entropy(scores.flatten(0, 1), texts[:, 1:].flatten())

    with Analysis(recorded_step(loss_of)) as analysis:
        assert list(other_inputs(analysis)) == []
