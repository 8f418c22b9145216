"""Where texts end and padding begins.

Padding is known by its looks: rows end, or begin, in runs of one token, of different lengths, and
that token hardly occurs anywhere else.
"""

from __future__ import annotations

import torch
from torch import Tensor


def padding_of(tokens: Tensor) -> tuple[int | None, Tensor]:
    """The padding token, and where it fills up a row: at its end, else at its beginning."""
    token, past = past_the_end(tokens)
    if token is not None:
        return token, past
    token, before = past_the_end(tokens.flip(1))
    return token, before.flip(1)


def past_the_end(tokens: Tensor) -> tuple[int | None, Tensor]:
    """The padding token, and the positions from which on there is nothing else."""
    last = tokens[:, -1]
    values, counts = torch.unique(last, return_counts=True)
    token = int(values[counts.argmax()])
    is_token = tokens == token
    trailing = is_token.flip(1).int().cumprod(1).flip(1).bool()
    lengths = trailing.sum(1)
    inside = int((is_token & ~trailing).sum())
    runs = int((lengths >= 2).sum())
    varied = len(torch.unique(lengths)) > 1
    rare_inside = inside <= 0.02 * tokens.numel()
    if runs * 2 < len(tokens) or not varied or not rare_inside:
        return None, torch.zeros_like(is_token)
    return token, trailing
