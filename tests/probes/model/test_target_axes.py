"""Targets that are shares, beside the axis of the loss's softmax."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from steps import VOCABULARY, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.model.target_axes import softmax_across_targets

Normalised = Callable[[Tensor, int], Tensor]


def by_parts(scores: Tensor, axis: int) -> Tensor:
    return scores - scores.exp().sum(axis, keepdim=True).log()


def by_logsumexp(scores: Tensor, axis: int) -> Tensor:
    return scores - torch.logsumexp(scores, dim=axis, keepdim=True)


def log_of_softmax(scores: Tensor, axis: int) -> Tensor:
    return scores.softmax(axis).log()


NORMALISED: list[Normalised] = [
    lambda scores, axis: scores.log_softmax(axis),
    log_of_softmax,
    by_logsumexp,
    by_parts,
]


def one_hot(tokens: Tensor) -> Tensor:
    return F.one_hot(tokens[:, 1:], VOCABULARY).float()


def taught(tokens: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*tokens[:, 1:].shape, VOCABULARY, generator=generator).softmax(-1)


def masked(tokens: Tensor) -> Tensor:
    rows = one_hot(tokens)
    rows[:, :2] = 0
    return rows


@pytest.mark.parametrize("normalised", NORMALISED)
@pytest.mark.parametrize("targets", [one_hot, taught, masked])
@pytest.mark.parametrize(("axis", "is_found"), [(1, True), (0, True), (-1, False)])
def test_a_softmax_across_its_targets_is_found(
    normalised: Normalised, targets: Callable[[Tensor], Tensor], axis: int, is_found: bool
) -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return -(targets(tokens) * normalised(model(tokens[:, :-1]), axis)).sum(-1).mean()

    found, along = softmax_across_targets(recorded_step(loss).tape)
    assert (found is not None) is is_found
    assert found is None or found.startswith(__file__)
    assert (along is not None and along < 0.5) is is_found


@pytest.mark.parametrize(("axis", "is_found"), [(1, True), (-1, False)])
def test_so_it_is_in_a_divergence_from_a_teacher(axis: int, is_found: bool) -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        given = F.log_softmax(model(tokens[:, :-1]), axis)
        return F.kl_div(given, taught(tokens), reduction="batchmean")

    found, _ = softmax_across_targets(recorded_step(loss).tape)
    assert (found is not None) is is_found


def test_weights_of_rows_that_are_spread_over_their_classes_are_no_targets() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        given = model(tokens[:, :-1]).log_softmax(-1)
        # The rows of a text weigh 1 together.
        weights = torch.rand(given.shape[:2]).softmax(1)[..., None].expand_as(given)
        return -(given * weights * one_hot(tokens)).sum()

    assert softmax_across_targets(recorded_step(loss).tape) == (None, None)
