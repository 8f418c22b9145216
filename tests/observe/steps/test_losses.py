"""Losses, kept as they were."""

from __future__ import annotations

import math

import torch

from lossleuth.observe.steps.losses import Losses


def test_only_a_single_number_is_a_loss() -> None:
    losses = Losses()
    assert losses.of(torch.tensor(2.5)) == 2.5
    assert losses.of(torch.ones(2)) is None
    assert losses.of("no tensor") is None


def test_of_a_scaled_loss_it_is_what_was_before() -> None:
    losses, loss = Losses(), torch.tensor(3.0)
    scaled = loss * math.inf
    losses.scaled(loss, scaled)
    assert losses.of(scaled) == 3.0
    assert losses.of(torch.tensor(4.0)) == 4.0


def test_what_is_kept_does_not_change_with_the_tensor() -> None:
    losses, norm = Losses(), torch.tensor(1.0)
    kept = losses.kept(norm)
    norm.add_(1)
    assert kept == 1.0
