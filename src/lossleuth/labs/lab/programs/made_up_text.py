"""A text that nobody wrote: which token follows depends on the two before it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Never written by the text itself.
PAD = 0


@dataclass(frozen=True)
class Text:
    """How many tokens there are, how many may follow each, and how long the text is."""

    vocabulary: int = 64
    followers: int = 6
    length: int = 40_000
    seed: int = 7

    def tokens(self) -> Tensor:
        """The text, the same on every machine.

        >>> Text(length=5).tokens().shape
        torch.Size([5])
        """
        generator = torch.Generator().manual_seed(self.seed)
        shape = (self.vocabulary, 2, self.followers)
        followers = torch.randint(PAD + 1, self.vocabulary, shape, generator=generator).tolist()
        chances = 1.0 / torch.arange(1, self.followers + 1)
        drawn = torch.multinomial(chances, self.length, replacement=True, generator=generator)
        text, before, last = [], 1, 2
        for choice in drawn.tolist():
            before, last = last, followers[last][before % 2][choice]
            text.append(last)
        return torch.tensor(text)
