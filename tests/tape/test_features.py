"""What logits were made of."""

from __future__ import annotations

import torch
from steps import WIDTH, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.tape.features import Features, find_features
from lossleuth.tape.roles import MOVES, find_roles
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
