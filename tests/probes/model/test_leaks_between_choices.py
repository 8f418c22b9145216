"""A contrastive loss chooses among the texts of the batch: that is no leak between them."""

from __future__ import annotations

import pytest
import torch
from steps import VOCABULARY, WIDTH, batch, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.model.leaks import leaks
from lossleuth.tape.roles.roles import find_roles

ROWS = 4


def leak(*, mixes: bool, same: bool) -> float | None:
    """Of two encoders of texts, or of one that reads both."""
    torch.manual_seed(1)
    asked, answers = batch(ROWS), batch(ROWS).flip(1)
    table, other = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)

    def code(tokens: Tensor, table: nn.Embedding) -> Tensor:
        h = table(tokens).tanh().mean(1)
        return h + h.mean(0) if mixes else h

    def loss(_: nn.Module, _tokens: Tensor) -> Tensor:
        if same:
            questions, texts = code(torch.cat([asked, answers]), table).chunk(2)
        else:
            questions, texts = code(asked, other), code(answers, table)
        return F.cross_entropy(questions @ texts.t() / 0.05, torch.arange(ROWS))

    window = recorded_step(loss)
    return leaks(window, find_roles(window)).batch


@pytest.mark.parametrize("same", [False, True])
def test_texts_that_are_chosen_among_do_not_leak(*, same: bool) -> None:
    assert leak(mixes=False, same=same) in (0.0, None)


def test_texts_that_mix_before_they_are_chosen_do() -> None:
    found = leak(mixes=True, same=False)
    assert found is not None and found > 1e-3
