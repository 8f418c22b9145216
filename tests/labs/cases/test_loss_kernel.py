"""The loss kernel that both investigations suspected keeps every invariant of a cross-entropy."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from lossleuth.gradcheck.loss_check import check_loss
from lossleuth.labs.cases.loss_kernel import LossKernel, cross_entropy


def test_it_is_torchs_cross_entropy() -> None:
    scores = torch.randn(2, 5, 34, dtype=torch.float64)
    targets = torch.randint(0, 34, (2, 5))
    wanted = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(cross_entropy(scores, targets), wanted)


def test_it_passes_at_every_size() -> None:
    assert all(check_loss(LossKernel.apply))


def test_its_gradient_is_softmax_minus_one_hot_over_the_count() -> None:
    scores = torch.randn(6, 34, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 34, (6,))
    (given,) = torch.autograd.grad(LossKernel.apply(scores, targets), scores)
    wanted = (scores.softmax(-1) - F.one_hot(targets, 34)) / 6
    torch.testing.assert_close(given, wanted.detach())
    assert float(given.sum(-1).abs().max()) < 1e-15
    assert bool((given[torch.arange(6), targets] < 0).all())


def test_a_check_wider_than_the_gradient_cannot_fail() -> None:
    # Documented as "0 of 500 finite-difference checks failed", at V = 2000 with atol 1e-3.
    scores = torch.randn(6, 2000, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 2000, (6,))
    (given,) = torch.autograd.grad(LossKernel.apply(scores, targets), scores)
    typical = float(given.abs().median())
    assert typical < 1e-4
    assert torch.allclose(2 * given, given, atol=1e-3) is False  # the targets alone stand out
    others = torch.ones_like(given, dtype=torch.bool).scatter_(1, targets[:, None], False)
    assert float((given[others].abs() < 1e-3).double().mean()) > 0.99
