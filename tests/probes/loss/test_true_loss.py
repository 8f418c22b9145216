"""The true loss of a step."""

from __future__ import annotations

import math

import pytest
import torch
from steps import (
    VOCABULARY,
    SmallModel,
    batch,
    recorded_step,
    scores_of,
    shifted_loss,
    step_model,
)
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.loss.true_loss import cross_entropy, cross_entropy_of, true_loss
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.supervised_rows import is_supervised
from lossleuth.tape.window import Window


def by_hand(window: Window, targets: Tensor | None = None) -> float:
    """The loss in float64, written out."""
    tokens = batch()
    rows = step_model(window)(tokens[:, :-1]).flatten(0, 1)
    aims = (tokens[:, 1:] if targets is None else targets).flatten()
    counted = aims >= 0
    picked = rows[torch.arange(len(rows)), aims.clamp(min=0)]
    losses = rows.exp().sum(-1).log() - picked
    return float(losses[counted].mean().detach())


def smoothed(model: nn.Module, tokens: Tensor) -> Tensor:
    return 5 * F.cross_entropy(*scores_of(model, tokens), label_smoothing=0.2)


def summed_with_a_penalty(model: nn.Module, tokens: Tensor) -> Tensor:
    scores, targets = scores_of(model, tokens)
    return F.cross_entropy(scores, targets, reduction="sum") + scores.square().mean()


def by_gather(model: nn.Module, tokens: Tensor) -> Tensor:
    scores, targets = scores_of(model, tokens)
    return -scores.log_softmax(-1).gather(1, targets[:, None]).mean()


def squares_beside_entropy(model: nn.Module, tokens: Tensor) -> Tensor:
    scores, targets = scores_of(model, tokens)
    F.cross_entropy(scores, targets)
    return F.mse_loss(scores, F.one_hot(targets, VOCABULARY).float())


@pytest.mark.parametrize(
    "loss_of",
    [shifted_loss, smoothed, summed_with_a_penalty, by_gather, squares_beside_entropy],
)
def test_it_is_plain_cross_entropy_whatever_is_differentiated(loss_of: object) -> None:
    window = recorded_step(loss_of)  # type: ignore[arg-type]  # one of several losses
    found = true_loss(window)
    assert found.untested is None
    assert found.loss == pytest.approx(by_hand(window), abs=1e-12)
    assert (found.count, found.vocabulary) == (24, VOCABULARY)
    assert found.logits_std == pytest.approx(
        float(step_model(window)(batch()[:, :-1]).std().detach()), rel=1e-12
    )


def test_dropout_is_off() -> None:
    def plant(model: SmallModel) -> None:
        model.between = nn.Dropout(0.5)

    window = recorded_step(change=plant)
    assert true_loss(window).loss == pytest.approx(by_hand(window), abs=1e-12)


def test_targets_that_do_not_count_do_not_count() -> None:
    aims = batch()[:, 1:].clone()
    aims[:, 3:] = -100

    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), aims.flatten())

    window = recorded_step(loss_of)
    found = true_loss(window)
    assert found.count == 9
    assert found.loss == pytest.approx(by_hand(window, aims), abs=1e-12)


def test_targets_that_are_the_inputs_give_way_to_the_next_tokens() -> None:
    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, :-1].flatten())

    window = recorded_step(loss_of)
    found = true_loss(window)
    # The last position of a row has no next token in the input.
    assert found.count == 21
    aims = batch()[:, 1:].clone()
    aims[:, -1] = -100
    assert found.loss == pytest.approx(by_hand(window, aims), abs=1e-12)


def test_its_gradient_is_that_of_the_model_in_float64() -> None:
    window = recorded_step(smoothed)
    run = window.backwards[0]
    leaves = {
        i: Replay(window.tape).widened(window.tape.value(i).detach()).clone().requires_grad_()
        for i in run.before
    }
    found = torch.autograd.grad(cross_entropy(window, leaves=leaves).mean, list(leaves.values()))
    model = step_model(window)
    shifted_loss(model, batch()).backward()
    expected = dict(model.named_parameters())
    for number, gradient in zip(leaves, found, strict=True):
        own = expected[window.names[number]].grad
        assert own is not None
        assert torch.allclose(gradient, own, rtol=0, atol=1e-12)


def test_logits_that_are_all_the_same_come_with_their_gradient() -> None:
    def dead(model: SmallModel) -> None:
        nn.init.zeros_(model.head.weight)
        model.between = lambda h: h * 0
        nn.init.zeros_(model.down.weight)
        nn.init.zeros_(model.down.bias)

    found = true_loss(recorded_step(change=dead))
    assert found.loss == pytest.approx(math.log(VOCABULARY), abs=1e-9)
    assert found.logits_std == pytest.approx(0.0, abs=1e-9)
    assert found.gradient is not None
    assert found.gradient < 1e-9
    assert true_loss(recorded_step()).gradient is None


def test_what_cannot_be_measured_is_said() -> None:
    def regression(model: nn.Module, tokens: Tensor) -> Tensor:
        return model(tokens).square().mean()

    found = true_loss(recorded_step(regression))
    assert (found.loss, found.untested) == (None, "no logits and targets were found")
    with pytest.raises(CannotReplay, match="no target is supervised"):
        cross_entropy_of(torch.zeros(3, 5), torch.full((3,), -100), torch.zeros(3).bool())
    with pytest.raises(CannotReplay, match="number of targets"):
        cross_entropy_of(torch.zeros(3, 5), torch.zeros(4).long(), torch.ones(4).bool())


def test_targets_outside_the_vocabulary_are_left_out() -> None:
    rows = torch.randn(4, 5, dtype=torch.float64)
    targets = torch.tensor([1, -3, 7, 4])
    found = cross_entropy_of(rows, targets, is_supervised(targets, None, 5))
    assert found.count == 2
    own = -rows.log_softmax(-1)[torch.tensor([0, 3]), torch.tensor([1, 4])].mean()
    assert float(found.mean) == pytest.approx(float(own), abs=1e-12)


def test_a_word_that_is_guessed_from_those_around_it_is_the_target() -> None:
    """It stands between them in the data, and is not one of them."""
    corpus = torch.randint(VOCABULARY, (200,), generator=torch.Generator().manual_seed(1))

    def from_both_sides(model: nn.Module, _: Tensor) -> Tensor:
        at = torch.randint(5, 190, (26,))
        around = model.get_submodule("tokens")(corpus[at[:, None] + torch.tensor([-2, -1, 1, 2])])
        weight = model.get_parameter("head.weight").repeat(1, 4)
        return F.cross_entropy(F.linear(around.flatten(1), weight), corpus[at])

    window = recorded_step(from_both_sides)
    (root,) = window.backwards[0].roots
    assert root is not None
    said = float(Replay(window.tape, gradients=False).run([root])[root])
    found = true_loss(window)
    assert found.count == 26
    assert found.loss == pytest.approx(said, rel=1e-9)
