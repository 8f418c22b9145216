"""Teacher, student and texts of the fifth founding program; nothing in here is at fault.

Once in a while a text is a single word, as in any crawl.

Shapes: B rows, T positions, C channels, H heads, K channels of a head, V words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.labs.cases.text import Language

IGNORED = -100
LENGTH = 16
TEXTS = 64
# Texts of a single word; the first two meet in one batch.
SINGLE = (26, 27, 41, 52)


@dataclass(frozen=True)
class Batch:
    """Texts side by side, filled up on the right."""

    tokens_BT: Tensor
    labels_BT: Tensor
    real_BT: Tensor


def make_texts(language: Language, seed: int) -> list[Tensor]:
    """Texts of equal length, but for those of one word."""
    said = language.sentences(TEXTS, LENGTH, seed)
    return [row[: 1 if number in SINGLE else LENGTH] for number, row in enumerate(said)]


def batches(texts: Sequence[Tensor], *, at_least: int = 1, rows: int = 2) -> list[Batch]:
    """Texts of at least so many words, in order, a few at a time."""
    kept = [text for text in texts if len(text) >= at_least]
    return [collated(kept[first : first + rows]) for first in range(0, len(kept), rows)]


def collated(texts: Sequence[Tensor]) -> Batch:
    """A batch in which each word's label is the next word, and the last has none."""
    length = max(map(len, texts))
    tokens_BT = torch.zeros(len(texts), length, dtype=torch.long)
    labels_BT = torch.full_like(tokens_BT, IGNORED)
    real_BT = torch.zeros_like(tokens_BT, dtype=torch.bool)
    for row, text in enumerate(texts):
        tokens_BT[row, : len(text)] = text
        labels_BT[row, : len(text) - 1] = text[1:]
        real_BT[row, : len(text)] = True
    return Batch(tokens_BT, labels_BT, real_BT)


class Teacher(nn.Module):
    """Knows the language: its scores are the ones that the texts were drawn from."""

    def __init__(self, language: Language) -> None:
        super().__init__()
        self.meaning = nn.Parameter(language.meaning_VC.clone(), requires_grad=False)
        self.calls = nn.Parameter(language.calls_VC.clone(), requires_grad=False)

    def hidden(self, tokens_BT: Tensor) -> Tensor:
        """What it makes of each word."""
        return F.embedding(tokens_BT, self.meaning)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Its scores of the next word."""
        return self.hidden(tokens_BT) @ self.calls.T


class Student(nn.Module):
    """A transformer of one block."""

    def __init__(self, words: int, *, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(LENGTH, width)
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(width) for _ in range(3))
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Scores of the next word."""
        rows, length = tokens_BT.shape
        x_BTC = self.words(tokens_BT) + self.positions(torch.arange(length))
        qkv = self.qkv(self.norm_1(x_BTC)).view(rows, length, 3, self.heads, -1)
        q_BHTK, k_BHTK, v_BHTK = (part.transpose(1, 2) for part in qkv.unbind(2))
        mixed = F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, is_causal=True)
        x_BTC = x_BTC + self.out(mixed.transpose(1, 2).flatten(2))
        x_BTC = x_BTC + self.down(self.up(self.norm_2(x_BTC)).relu())
        scores_BTV: Tensor = self.head(self.norm_3(x_BTC))
        return scores_BTV
