"""Attention made causal."""

from __future__ import annotations

import pytest
import torch
from changed_runs import VOCABULARY, Ran, batch, entropy, with_changes
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.interventions.model.restore_mask import RestoreMask

WIDTH, HEADS, LENGTH = 8, 2, 5


def causal(length: int = LENGTH) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).triu(1)


class Attending(nn.Module):
    """One layer of attention, as a subclass writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(8, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(x + self.attend(x))

    def attend(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class ByFunction(Attending):
    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.three, self.masked = nn.Linear(WIDTH, 3 * WIDTH), masked

    def attend(self, x: Tensor) -> Tensor:
        parts = self.three(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        made = F.scaled_dot_product_attention(*parts, is_causal=self.masked, scale=0.3)
        return made.transpose(1, 2).flatten(2)


class ByModule(Attending):
    def __init__(
        self, masked: bool, *, weights: bool, rows_first: bool = True, padded: bool = False
    ) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=rows_first)
        self.masked, self.weights, self.padded = masked, weights, padded

    def attend(self, x: Tensor) -> Tensor:
        padding = None
        if self.padded:
            padding = torch.zeros(x.shape[:2], dtype=torch.bool)
            padding[0, -1] = True
        first = self.attention.batch_first
        x = x if first else x.transpose(0, 1)
        found, _ = self.attention(
            *(x, x, x, padding),
            need_weights=self.weights,
            attn_mask=causal() if self.masked else None,
        )
        return found if first else found.transpose(0, 1)  # type: ignore[no-any-return]  # a tensor


class ByLayer(Attending):
    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, dropout=0.0, batch_first=True)
        self.masked = masked

    def attend(self, x: Tensor) -> Tensor:
        return self.layer(x, causal() if self.masked else None)


KINDS = {
    "function": ByFunction,
    "module": lambda masked: ByModule(masked, weights=False),
    "module with weights": lambda masked: ByModule(masked, weights=True),
    "module, positions first": lambda masked: ByModule(masked, weights=True, rows_first=False),
    "module with padding": lambda masked: ByModule(masked, weights=False, padded=True),
    "layer": ByLayer,
}


def attending(kind: str, masked: bool) -> Ran:
    torch.manual_seed(0)
    net = KINDS[kind](masked)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    losses = []
    for step in range(5):
        tokens = batch(step)
        net.train()
        loss = entropy(net(tokens[:, :-1]), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            # Torch has other ways of its own here.
            losses += [loss.item(), entropy(net(tokens[:, :-1]), tokens[:, 1:]).item()]
    return Ran(losses, torch.cat([p.detach().flatten() for p in net.parameters()]))


@pytest.mark.parametrize("kind", KINDS)
def test_attention_without_a_mask_becomes_causal(kind: str) -> None:
    right = attending(kind, masked=True)
    assert attending(kind, masked=False).distance(right) > 1e-3
    assert with_changes(lambda: attending(kind, masked=False), RestoreMask()).is_exactly(right)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_with_a_mask_keeps_it(kind: str) -> None:
    right = attending(kind, masked=True)
    assert with_changes(lambda: attending(kind, masked=True), RestoreMask()).is_exactly(right)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 6), (3, 6)])
def test_one_query_or_other_keys_are_left_alone(queries: int, keys: int) -> None:
    def run() -> Ran:
        torch.manual_seed(0)
        query, key = torch.randn(2, HEADS, queries, 4), torch.randn(2, HEADS, keys, 4)
        several = nn.MultiheadAttention(4, 1, batch_first=True)
        made = F.scaled_dot_product_attention(query, key, key)
        other, _ = several(query[0], key[0], key[0])
        return Ran([], torch.cat([made.flatten(), other.detach().flatten()]))

    assert with_changes(run, RestoreMask()).is_exactly(run())


def test_any_mask_of_the_programs_own_is_kept() -> None:
    def run() -> Ran:
        query = torch.linspace(-1, 1, 40).reshape(1, 2, 5, 4)
        band = torch.ones(5, 5, dtype=torch.bool).tril(1)
        made = F.scaled_dot_product_attention(query, query, query, attn_mask=band)
        return Ran([], made)

    assert with_changes(run, RestoreMask()).is_exactly(run())


def test_padding_in_floating_point_goes_along_with_the_mask() -> None:
    torch.manual_seed(0)
    several = nn.MultiheadAttention(4, 1, batch_first=True)
    x, padding = torch.randn(2, 3, 4), torch.zeros(2, 3)
    padding[1, 2] = float("-inf")

    def run(mask: Tensor | None) -> Ran:
        found, _ = several(x, x, x, key_padding_mask=padding, attn_mask=mask)
        return Ran([], found.detach())

    added = torch.zeros(3, 3).masked_fill(causal(3), float("-inf"))
    assert with_changes(lambda: run(None), RestoreMask()).is_exactly(run(added))
