"""Targets taken from other positions."""

from __future__ import annotations

import pytest
import torch
from changed_runs import VOCABULARY, Net, Ran, batch, entropy, sgd, trained, with_changes
from torch import Tensor
from torch.nn import functional as F

from lossleuth.interventions.data.shift_labels import ShiftLabels
from lossleuth.observe.stop import InterventionFailed

IGNORED = -100


def moved(targets: Tensor, offset: int) -> Tensor:
    """What stands so much later in each row, by a loop."""
    found = torch.full_like(targets, IGNORED)
    for row in range(targets.shape[0]):
        for at in range(targets.shape[1]):
            if 0 <= at + offset < targets.shape[1]:
                found[row, at] = targets[row, at + offset]
    return found


def plain(scores: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def written_out(scores: Tensor, targets: Tensor) -> Tensor:
    """Without torch's loss: a logarithm of sums, and what the targets pick."""
    kept = targets.flatten() != IGNORED
    rows, aims = scores.flatten(0, 1)[kept], targets.flatten()[kept]
    return (rows.logsumexp(-1) - rows.gather(1, aims[:, None]).squeeze(1)).mean()


@pytest.mark.parametrize("loss_of", [plain, written_out])
@pytest.mark.parametrize("offset", [1, -1, 2, -3])
def test_it_equals_the_run_with_those_targets(offset: int, loss_of: object) -> None:
    assert callable(loss_of)
    expected = trained(make=sgd, loss_of=lambda s, t: loss_of(s, moved(t, offset)))
    found = with_changes(lambda: trained(make=sgd, loss_of=loss_of), ShiftLabels(offset))
    assert trained(make=sgd, loss_of=loss_of).distance(expected) > 1e-2
    assert found.distance(expected) < 1e-6


def test_targets_that_are_too_early_become_the_next_tokens() -> None:
    tokens: list[Tensor] = []

    def kept(step: int) -> Tensor:
        tokens.append(batch(step))
        return tokens[-1]

    def early() -> Ran:
        """Every position is asked for its own token."""

        def loss_of(scores: Tensor, _targets: Tensor) -> Tensor:
            return entropy(scores, tokens[-1][:, :-1])

        return trained(make=sgd, loss_of=loss_of, batch_of=kept)

    def right_loss(scores: Tensor, _targets: Tensor) -> Tensor:
        return entropy(scores[:, :-1], tokens[-1][:, 1:-1])

    right = trained(make=sgd, loss_of=right_loss, batch_of=kept)
    assert early().distance(right) > 1e-2
    assert with_changes(early, ShiftLabels(1)).distance(right) < 1e-6


def test_by_zero_nothing_changes_at_all() -> None:
    def smoothed() -> Ran:
        """What plain cross-entropy would not be."""
        return trained(
            loss_of=lambda s, t: (
                3 * F.cross_entropy(s.flatten(0, 1), t.flatten(), label_smoothing=0.2)
            )
        )

    def regression() -> Ran:
        return trained(loss_of=lambda s, _: s.square().mean())

    assert with_changes(smoothed, ShiftLabels(0)).is_exactly(smoothed())
    assert with_changes(regression, ShiftLabels(0)).is_exactly(regression())


def test_targets_that_are_ignored_stay_so_wherever_they_come_to_be() -> None:
    def partly(targets: Tensor) -> Tensor:
        masked = targets.clone()
        masked[1, 2:] = IGNORED
        masked[3] = IGNORED
        return masked

    expected = trained(make=sgd, loss_of=lambda s, t: plain(s, moved(partly(t), 1)))
    found = with_changes(
        lambda: trained(make=sgd, loss_of=lambda s, t: plain(s, partly(t))), ShiftLabels(1)
    )
    assert found.distance(expected) < 1e-6


def accumulated(offset: int, parts: int) -> Ran:
    """Several backward passes for each update, each with a loss that is read."""
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        for tokens in batch(step).chunk(parts):
            loss = plain(net(tokens[:, :-1]), moved(tokens[:, 1:], offset))
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return Ran(losses, torch.cat([p.detach().flatten() for p in net.parameters()]))


@pytest.mark.parametrize("parts", [2, 4])
def test_each_micro_batch_has_its_own_targets(parts: int) -> None:
    found = with_changes(lambda: accumulated(0, parts), ShiftLabels(1))
    assert accumulated(0, parts).distance(accumulated(1, parts)) > 1e-2
    assert found.distance(accumulated(1, parts)) < 1e-6


def test_losses_are_read_as_the_program_takes_them() -> None:
    first = trained(steps=1).losses
    assert with_changes(lambda: trained(steps=1), ShiftLabels(1)).losses == first


def test_what_cannot_be_shifted_is_said_to_have_failed() -> None:
    with pytest.raises(InterventionFailed, match="no logits and targets"):
        with_changes(lambda: trained(loss_of=lambda s, _: s.square().mean()), ShiftLabels(1))
    with pytest.raises(InterventionFailed, match="no target is supervised"):
        with_changes(trained, ShiftLabels(VOCABULARY))
