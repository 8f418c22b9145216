"""The one loss: unsmoothed cross-entropy per supervised token."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from lossleuth.train.data import IGNORED


class NoSupervisedToken(ValueError):
    """A mean over no tokens is not 0 and not NaN: it does not exist."""


def token_losses(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """Cross-entropy of each position in nats, 0 where it is not supervised.

    >>> import torch
    >>> token_losses(torch.zeros(1, 2, 4), torch.tensor([[3, IGNORED]]))
    tensor([[1.3863, 0.0000]])
    """
    flat = F.cross_entropy(
        logits_BTV.flatten(0, 1), targets_BT.flatten(), ignore_index=IGNORED, reduction="none"
    )
    return flat.view_as(targets_BT)


def mean_loss(logits_BTV: Tensor, targets_BT: Tensor, tokens: int | None = None) -> Tensor:
    """Summed cross-entropy over `tokens`, by default the supervised tokens of this batch.

    With gradient accumulation, `tokens` is the count of the whole step: then micro-batches of
    unequal size weigh as their tokens do, and the sum over them is the loss of the whole batch.
    """
    count = supervised_count(targets_BT) if tokens is None else tokens
    if not count:
        raise NoSupervisedToken(
            f"expected at least one supervised token, found none in a batch of "
            f"{tuple(targets_BT.shape)}: every target is {IGNORED}"
        )
    summed = F.cross_entropy(
        logits_BTV.flatten(0, 1), targets_BT.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return summed / count


def supervised_count(targets_BT: Tensor) -> int:
    """Positions whose target counts.

    >>> import torch
    >>> supervised_count(torch.tensor([[3, IGNORED]]))
    1
    """
    return int((targets_BT != IGNORED).sum())
