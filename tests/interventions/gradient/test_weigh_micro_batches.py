"""Micro-batches weighed by their targets."""

from __future__ import annotations

import torch
from changed_runs import Net, Ran, batch, trained, with_changes
from torch import Tensor
from torch.nn import functional as F

from lossleuth.interventions.gradient.weigh_micro_batches import WeighMicroBatches

# Supervised targets of each row of a batch.
UNEVEN, EVEN = (5, 5, 1, 0), (3, 3, 3, 3)


def targets_of(tokens: Tensor, lengths: tuple[int, ...]) -> Tensor:
    targets = tokens[:, 1:].clone()
    for row, length in enumerate(lengths):
        targets[row, length:] = -100
    return targets


def accumulated(lengths: tuple[int, ...], parts: int, clip: float | None = None) -> Ran:
    """Micro-batches whose means are averaged, whatever they are the means of."""
    torch.manual_seed(0)
    net = Net().double()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    losses = []
    for step in range(4):
        tokens = batch(step)
        optimizer.zero_grad()
        targets = targets_of(tokens, lengths)
        for inputs, aims in zip(tokens.chunk(parts), targets.chunk(parts), strict=True):
            loss = F.cross_entropy(net(inputs[:, :-1]).flatten(0, 1), aims.flatten()) / parts
            loss.backward()
            losses.append(loss.item())
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
    return Ran(losses, torch.cat([p.detach().flatten() for p in net.parameters()]))


def test_one_backward_pass_per_step_is_left_exactly_as_it_is() -> None:
    assert with_changes(trained, WeighMicroBatches()).is_exactly(trained())


def test_equal_micro_batches_keep_their_weights() -> None:
    found = with_changes(lambda: accumulated(EVEN, 2), WeighMicroBatches())
    assert found.distance(accumulated(EVEN, 2)) < 1e-12


def test_unequal_micro_batches_become_the_whole_batch() -> None:
    whole = accumulated(UNEVEN, 1)
    assert accumulated(UNEVEN, 2).distance(whole) > 1e-2
    found = with_changes(lambda: accumulated(UNEVEN, 2), WeighMicroBatches())
    assert found.distance(whole) < 1e-12


def test_the_limit_of_clipping_still_holds() -> None:
    found = with_changes(lambda: accumulated(UNEVEN, 2, clip=1e-3), WeighMicroBatches())
    start = accumulated(UNEVEN, 2, clip=0.0)
    assert 0 < float((found.weights - start.weights).norm()) < 4 * 0.5 * 1e-3 * 1.01
