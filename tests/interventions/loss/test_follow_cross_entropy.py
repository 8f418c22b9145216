"""Cross-entropy followed, whatever the program differentiates."""

from __future__ import annotations

import pytest
import torch
from changed_runs import VOCABULARY, Net, Ran, batch, entropy, sgd, trained, with_changes
from torch import Tensor
from torch.nn import functional as F

from lossleuth.interventions.loss.follow_cross_entropy import FollowCrossEntropy
from lossleuth.observe.stop import InterventionFailed


def squares(scores: Tensor, targets: Tensor) -> Tensor:
    """Squared differences from the right answers; what is shown is cross-entropy."""
    entropy(scores, targets).item()
    return F.mse_loss(scores, F.one_hot(targets, VOCABULARY).to(scores.dtype))


def test_a_program_that_follows_it_already_goes_on_as_before() -> None:
    assert with_changes(trained, FollowCrossEntropy()).distance(trained()) < 1e-6


def test_a_program_that_follows_squares_follows_cross_entropy_instead() -> None:
    def harmed() -> Ran:
        return trained(make=sgd, loss_of=squares)

    right = trained(make=sgd)
    assert harmed().distance(right) > 1e-2
    assert with_changes(harmed, FollowCrossEntropy()).distance(right) < 1e-6


def test_smoothing_factors_and_other_terms_fall_away() -> None:
    def harmed() -> Ran:
        def loss_of(scores: Tensor, targets: Tensor) -> Tensor:
            smooth = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), label_smoothing=0.3)
            return 7 * smooth + scores.square().mean()

        return trained(make=sgd, loss_of=loss_of)

    assert with_changes(harmed, FollowCrossEntropy()).distance(trained(make=sgd)) < 1e-6


def test_targets_that_are_the_inputs_give_way_to_the_next_tokens() -> None:
    rows = torch.stack(
        [torch.randperm(11, generator=torch.Generator().manual_seed(i))[:7] for i in range(6)]
    )

    def aimed(shift: int) -> Ran:
        """The model is given all tokens; targets are shifted by hand."""

        def loss_of(scores: Tensor, targets: Tensor) -> Tensor:
            end = rows.shape[1] - 1
            if shift:
                return entropy(scores[:, : end - 1], rows[:, 1:end])
            return entropy(scores, rows[:, :end])

        return trained(make=sgd, loss_of=loss_of, batch_of=lambda step: rows)

    found = with_changes(lambda: aimed(0), FollowCrossEntropy())
    assert found.distance(aimed(1)) < 1e-6
    assert aimed(0).distance(aimed(1)) > 1e-2


def test_without_targets_the_change_is_said_to_have_failed() -> None:
    def regression() -> Ran:
        return trained(loss_of=lambda scores, _: scores.square().mean())

    with pytest.raises(InterventionFailed, match="no logits and targets"):
        with_changes(regression, FollowCrossEntropy())


def accumulated(smoothing: float) -> Ran:
    """Four backward passes for each update, each with a loss that is read."""
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        for tokens in batch(step).split(1):
            scores, targets = net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
            loss = F.cross_entropy(scores, targets, label_smoothing=smoothing)
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return Ran(losses, torch.cat([p.detach().flatten() for p in net.parameters()]))


def test_each_micro_batch_follows_its_own() -> None:
    found = with_changes(lambda: accumulated(0.5), FollowCrossEntropy())
    assert accumulated(0.5).distance(accumulated(0.0)) > 1e-2
    assert found.distance(accumulated(0.0)) < 1e-6


def by_hand(sign: float) -> Ran:
    """No autograd at all: gradients are written down, an optimizer updates."""
    torch.manual_seed(0)
    table = torch.nn.Embedding(VOCABULARY, VOCABULARY)
    weight = table.weight
    optimizer = torch.optim.SGD([weight], lr=1.0)
    losses = []
    for step in range(5):
        tokens = batch(step)
        inputs, targets = tokens[:, :-1].flatten(), tokens[:, 1:].flatten()
        with torch.no_grad():
            scores = table(inputs).log_softmax(1)
            losses.append(-scores.gather(1, targets[:, None]).mean().item())
            delta = scores.exp() - F.one_hot(targets, VOCABULARY)
            summed = torch.zeros_like(weight).index_add(0, inputs, delta / len(inputs))
        weight.grad = sign * summed
        optimizer.step()
    return Ran(losses, weight.detach().double())


def test_gradients_made_by_hand_are_replaced_as_well() -> None:
    assert with_changes(lambda: by_hand(1.0), FollowCrossEntropy()).distance(by_hand(1.0)) < 1e-6
    assert by_hand(-1.0).distance(by_hand(1.0)) > 0.1
    assert with_changes(lambda: by_hand(-1.0), FollowCrossEntropy()).distance(by_hand(1.0)) < 1e-6
