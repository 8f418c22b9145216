"""Weights and targets are read off the derivative, however a loss is written."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.probes.evaluation.counted_rows import Counted, counted_rows

TARGETS = torch.tensor([3, 1, 4, 1, 5])


def of(loss_of: object) -> Counted:
    rows = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    loss: Tensor = loss_of(rows)  # type: ignore[operator]  # a function of scores
    (derivative,) = torch.autograd.grad(loss, rows)
    return counted_rows(rows.detach(), derivative)


def masked(rows: Tensor) -> Tensor:
    chances = rows.softmax(-1).gather(-1, TARGETS[:, None])[:, 0]
    weights = torch.tensor([1.0, 0.0, 2.0, 0.0, 1.0])
    return -(chances.log() * weights).sum()


def test_weights_targets_and_places_of_a_mask_by_hand() -> None:
    found = of(masked)
    assert found.is_plain
    assert found.places.tolist() == [0, 2, 4]
    assert found.targets.tolist() == [3, 4, 5]
    torch.testing.assert_close(found.weights, torch.tensor([1.0, 2.0, 1.0]).double())


def test_a_likelihood_has_negative_weights() -> None:
    found = of(lambda rows: -F.cross_entropy(rows, TARGETS))
    assert found.is_plain
    torch.testing.assert_close(found.weights, torch.full((5,), -0.2).double())


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda rows: F.cross_entropy(rows, TARGETS, label_smoothing=0.02),
        lambda rows: F.cross_entropy(rows / 1.1, TARGETS),
        lambda rows: F.cross_entropy(rows, TARGETS) + 1e-2 * rows.square().mean(),
    ],
    ids=["smoothed", "softened", "penalised"],
)
def test_other_losses_are_not_explained(loss_of: object) -> None:
    assert not of(loss_of).is_plain


def test_nothing_counts_where_nothing_moves_it() -> None:
    found = counted_rows(torch.randn(3, 4), torch.zeros(3, 4).double())
    assert len(found.places) == 0
    assert not found.is_plain
