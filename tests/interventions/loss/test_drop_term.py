"""A term of the loss left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from changed_runs import Net, Ran, entropy, sgd, trained, with_changes
from torch import Tensor

from lossleuth.interventions.loss.drop_term import DropTerm

Loss = Callable[[Tensor, Tensor], Tensor]


def size(scores: Tensor) -> Tensor:
    return scores.square().mean()


def spread(scores: Tensor) -> Tensor:
    return scores.logsumexp(-1).square().mean()


def both(scores: Tensor, targets: Tensor) -> Tensor:
    return entropy(scores, targets) + 5 * size(scores)


def one_by_one(scores: Tensor, targets: Tensor) -> Tensor:
    total = 1.0 * entropy(scores, targets)
    total += 5 * size(scores)
    return total


def three(scores: Tensor, targets: Tensor) -> Tensor:
    return sum([entropy(scores, targets), 0.3 * spread(scores), 5 * size(scores)])  # type: ignore[return-value]  # tensors


def scaled(scores: Tensor, targets: Tensor) -> Tensor:
    return (entropy(scores, targets) + 5 * size(scores)) / 4


@pytest.mark.parametrize(
    ("loss_of", "index", "rest"),
    [
        (both, 1, entropy),
        (both, 0, lambda s, t: 5 * size(s)),
        (one_by_one, 1, entropy),
        (three, 1, both),
        (three, 2, lambda s, t: entropy(s, t) + 0.3 * spread(s)),
        (scaled, 1, lambda s, t: entropy(s, t) / 4),
    ],
)
def test_it_equals_the_run_without_that_term(loss_of: Loss, index: int, rest: Loss) -> None:
    expected = trained(make=sgd, loss_of=rest)
    assert trained(make=sgd, loss_of=loss_of).distance(expected) > 1e-2
    found = with_changes(lambda: trained(make=sgd, loss_of=loss_of), DropTerm(index))
    assert found.distance(expected) < 1e-6


def test_a_term_that_drowns_the_rest_leaves_the_rest_intact() -> None:
    def drowned() -> Ran:
        return trained(make=sgd, loss_of=lambda s, t: entropy(s, t) + 1e6 * size(s))

    assert with_changes(drowned, DropTerm(1)).distance(trained(make=sgd)) < 1e-6


@pytest.mark.parametrize("index", [2, 7, -1])
def test_a_term_that_is_not_there_changes_nothing(index: int) -> None:
    def own() -> Ran:
        return trained(loss_of=both)

    assert with_changes(own, DropTerm(index)).is_exactly(own())


@pytest.mark.parametrize("index", [0, 1])
def test_a_loss_that_is_no_sum_is_left_as_it_is(index: int) -> None:
    assert with_changes(trained, DropTerm(index)).is_exactly(trained())


def test_what_only_that_term_depends_on_is_not_updated_at_all() -> None:
    def with_penalty(weight: float) -> Ran:
        """A parameter of its own, which decay would move if it had a gradient of zero."""
        torch.manual_seed(0)
        net, extra = Net(), torch.ones(3, requires_grad=True)
        optimizer = torch.optim.AdamW([*net.parameters(), extra], lr=0.1, weight_decay=0.5)
        losses = []
        for _ in range(3):
            loss = net(torch.arange(4)).square().mean()
            if weight:
                loss = loss + weight * (extra**2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return Ran(losses, torch.cat([extra, net.head.weight.flatten()]).detach().double())

    found = with_changes(lambda: with_penalty(0.5), DropTerm(1))
    assert found.distance(with_penalty(0.0)) < 1e-5
    assert found.weights[:3].tolist() == [1.0, 1.0, 1.0]


def test_the_program_still_reads_its_whole_loss() -> None:
    def first() -> Ran:
        return trained(steps=1, loss_of=both)

    assert with_changes(first, DropTerm(1)).losses == first().losses
