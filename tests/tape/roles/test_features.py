"""What logits were made of."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from steps import VOCABULARY, WIDTH, batch, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.data.padding import padding
from lossleuth.probes.model.leaks import leaks
from lossleuth.tape.op_schemas import MOVES
from lossleuth.tape.roles.alignment import alignment
from lossleuth.tape.roles.features import Features, find_features
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window


def hidden(model: nn.Module, tokens: Tensor) -> Tensor:
    """What the head of the small model gets."""
    head, model.head = model.head, nn.Identity()
    try:
        return model(tokens)  # type: ignore[no-any-return]  # a tensor
    finally:
        model.head = head


def features_of(window: Window) -> Features | None:
    roles = find_roles(window)
    assert roles is not None and roles.logits is not None
    return find_features(window.tape, window.tape.makers(), roles.logits, MOVES)


def test_features_of_some_positions_are_those_of_all() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        some = hidden(model, tokens[:, :-1])[:, 3:]
        logits = 5 * torch.tanh(model.head(some) / 5)  # type: ignore[operator]  # a module
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 4:].flatten())

    window = recorded_step(loss)
    found = features_of(window)
    assert found is not None
    assert window.tape.layouts[found.number].shape == (3, 8, WIDTH)
    roles = find_roles(window)
    assert roles is not None
    assert roles.features == found


def test_logits_of_all_positions_need_no_features() -> None:
    roles = find_roles(recorded_step())
    assert roles is not None
    assert roles.tokens is not None
    assert roles.features is None


def test_a_product_of_two_computed_tensors_has_no_features() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        x = hidden(model, tokens[:, :-1])
        return F.cross_entropy((x @ x.transpose(1, 2)).flatten(0, 1), torch.zeros(24).long())

    assert features_of(recorded_step(loss)) is None


class FusedLoss(torch.autograd.Function):
    """Takes features to a loss, a few classes at a time, as kernels do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, targets: Tensor) -> Tensor:
        total, target = torch.zeros(len(x)), torch.zeros(len(x))
        for start in range(0, len(table), 8):
            tile = x @ table[start : start + 8].t()
            total += tile.exp().sum(-1)
            for row, wanted in enumerate(targets.tolist()):
                if start <= wanted < start + 8:
                    target[row] = tile[row, wanted - start]
        ctx.save_for_backward(x, table, targets)
        return (total.log() - target).mean()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, table, targets = ctx.saved_tensors
        error = (x @ table.t()).softmax(-1) - F.one_hot(targets, len(table))
        error = gradient * error / len(x)
        return error @ table, error.t() @ x, None


class IgnoringLoss(FusedLoss):
    """Leaves targets of 0 out, inside."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, targets: Tensor) -> Tensor:
        ctx.save_for_backward(x, table, targets)
        kept = targets != 0
        logits = x[kept] @ table.t()
        picked = logits.gather(1, targets[kept].unsqueeze(1)).squeeze(1)
        return (logits.exp().sum(-1).log() - picked).mean()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, table, targets = ctx.saved_tensors
        kept = (targets != 0).unsqueeze(1)
        error = (x @ table.t()).softmax(-1) - F.one_hot(targets, len(table))
        error = gradient * error * kept / kept.sum()
        return error @ table, error.t() @ x, None


@pytest.mark.parametrize("inside", [FusedLoss, IgnoringLoss])
def test_what_counts_is_told_where_logits_are_never_seen(inside: Any) -> None:
    tokens = batch().clamp(min=1).where(torch.arange(9) < torch.tensor([[4], [6], [9]]), 0)

    def loss(model: nn.Module, _: Tensor) -> Tensor:
        x = hidden(model, tokens[:, :-1]).reshape(-1, WIDTH)
        return inside.apply(x, model.head.weight, tokens[:, 1:].reshape(-1))  # type: ignore[no-any-return,union-attr]  # a tensor

    window = recorded_step(loss)
    found = padding(window, find_roles(window))
    assert (found.untested, found.token) == (None, 0)
    assert (found.supervised_pads > 0) is (inside is FusedLoss)
    assert found.supervised == (24 if inside is FusedLoss else 24 - int((tokens[:, 1:] == 0).sum()))


def fused_loss(offset: int) -> Any:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        x = hidden(model, tokens[:, :-1])[:, 2:6]
        wanted = tokens[:, 2 + offset : 6 + offset]
        return FusedLoss.apply(x.reshape(-1, WIDTH), model.head.weight, wanted.reshape(-1))  # type: ignore[no-any-return,union-attr]  # a tensor

    return loss


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_a_function_that_never_shows_logits_has_features_and_targets(offset: int) -> None:
    window = recorded_step(fused_loss(offset))
    roles = find_roles(window)
    assert roles is not None
    assert roles.features is not None
    assert window.tape.layouts[roles.features.number].shape == (3, 8, WIDTH)
    assert (roles.logits, roles.vocabulary) == (None, VOCABULARY)
    assert alignment(window, roles).offset == offset


def test_leaks_are_seen_in_features_too() -> None:
    for causal in (True, False):
        window = recorded_step(fused_loss(1), lambda m, c=causal: setattr(m, "causal", c))
        found = leaks(window, find_roles(window))
        assert found.untested is None
        assert found.future is not None
        assert (found.future == 0) == causal


def test_weights_that_are_loaded_within_the_step_are_parameters_still() -> None:
    # Loading copies in place, so the operation that makes a weight is the one that takes it.
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        model.load_state_dict({name: x.clone() for name, x in model.state_dict().items()})
        some = hidden(model, tokens[:, :-1])[:, 3:]
        logits = model.head(some)  # type: ignore[operator]  # a module
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 4:].flatten())

    window = recorded_step(loss)
    found = features_of(window)
    assert found is not None
    assert window.tape.layouts[found.number].shape == (3, 8, WIDTH)
