"""Parts of a model that get one same token."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from steps import recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.model.constant_input import constant_input
from lossleuth.tape.roles.roles import find_roles

VOCABULARY, WIDTH = 23, 8


class Translator(nn.Module):
    """What an encoder makes of a source is added up for each position of the target."""

    def __init__(self, source: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.source = source
        self.table, self.kinds = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2, WIDTH)
        self.encoder, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        memory = torch.tanh(self.encoder(self.table(self.source(tokens)))).mean(1, keepdim=True)
        h = self.table(tokens) + self.kinds(torch.zeros_like(tokens))
        scores: Tensor = self.head(h + memory)
        return scores


def first_column(tokens: Tensor) -> Tensor:
    return torch.zeros_like(tokens[:, :1])


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        (torch.zeros_like, True),
        (lambda tokens: torch.full((3, 5), 4), True),
        (lambda tokens: tokens.flip(1), False),
        (first_column, False),
        (lambda tokens: torch.arange(5).expand(3, 5), False),
    ],
    ids=["zeros", "one mask", "the text", "a start token", "learned queries"],
)
def test_an_encoder_that_gets_one_token_is_found(
    source: Callable[[Tensor], Tensor], is_found: bool
) -> None:
    torch.manual_seed(0)
    model = Translator(source)
    tokens = torch.randint(VOCABULARY, (3, 9))

    def step(_: nn.Module, __: Tensor) -> Tensor:
        scores = model(tokens[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

    window = recorded_step(step)
    roles = find_roles(window)
    assert roles is not None and roles.scores is not None
    found = constant_input(window.tape, [roles.scores], roles.run.at)
    assert (found is not None) is is_found
