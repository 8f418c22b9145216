"""Batches of windows that follow each other through a text, one character apart."""

from __future__ import annotations

import torch
from torch import Tensor


class Windows:
    """Windows of a text in file order, from its beginning again after its end."""

    def __init__(self, tokens: Tensor, *, context: int = 32, rows: int = 8) -> None:
        self.tokens = tokens
        self.context = context
        self.rows = rows

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Inputs, and what follows each of them."""
        number = len(self.tokens) - self.context
        first_B = (step * self.rows + torch.arange(self.rows)) % number
        windows_BT = self.tokens[first_B[:, None] + torch.arange(self.context + 1)]
        return windows_BT[:, :-1], windows_BT[:, 1:]
