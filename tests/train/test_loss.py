"""The loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lossleuth.train.data import IGNORED
from lossleuth.train.loss import NoSupervisedToken, mean_loss, supervised_count, token_losses
from lossleuth.train.oracle_layers import cross_entropy


def example() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 7, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 7, (3, 5), generator=generator)
    targets[0, 2:] = IGNORED
    targets[2] = IGNORED
    return logits, targets


def test_the_loss_is_the_oracles() -> None:
    logits, targets = example()
    expected, _ = cross_entropy(logits.numpy(), targets.numpy())
    assert np.isclose(mean_loss(logits, targets).item(), expected, rtol=1e-14)


def test_micro_batches_add_up_to_the_whole_batch_whatever_their_sizes() -> None:
    logits, targets = example()
    count = supervised_count(targets)
    parts = sum(
        mean_loss(logits[i : i + 1], targets[i : i + 1], count).item() for i in range(len(targets))
    )
    assert np.isclose(parts, mean_loss(logits, targets).item(), rtol=1e-14)


def test_a_batch_with_no_supervised_token_raises_and_never_gives_nan() -> None:
    logits, targets = example()
    with pytest.raises(NoSupervisedToken, match="found none in a batch of"):
        mean_loss(logits, torch.full_like(targets, IGNORED))


def test_token_losses_sum_to_the_mean_and_are_zero_where_ignored() -> None:
    logits, targets = example()
    losses = token_losses(logits, targets)
    assert losses[targets == IGNORED].eq(0).all()
    mean = losses.sum() / supervised_count(targets)
    assert np.isclose(mean.item(), mean_loss(logits, targets).item(), rtol=1e-14)
