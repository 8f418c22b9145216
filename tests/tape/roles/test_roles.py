"""What the tensors of a step mean."""

from __future__ import annotations

import math

import torch
from steps import VOCABULARY, batch, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.tape.roles.alignment import alignment
from lossleuth.tape.roles.roles import Roles, find_roles, token_values
from lossleuth.tape.window import Window


def roles_of(window: Window) -> Roles:
    roles = find_roles(window)
    assert roles is not None
    return roles


def test_tokens_logits_and_targets_of_the_usual_loss() -> None:
    window = recorded_step()
    roles = roles_of(window)
    tape = window.tape
    assert roles.vocabulary == VOCABULARY
    assert roles.ignored == -100
    assert roles.logits is not None
    assert tape.layouts[roles.logits].shape[-1] == VOCABULARY
    assert roles.targets is not None
    assert roles.tokens is not None
    assert tape.layouts[roles.tokens].shape == (3, 8)


def test_positions_are_not_tokens_and_attention_is_no_prediction() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        logits = model(tokens[:, :-1])
        attention = (logits @ logits.transpose(1, 2)).softmax(-1)
        logits = logits + 0.01 * attention @ logits
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    roles = roles_of(recorded_step(loss))
    assert roles.vocabulary == VOCABULARY


def test_a_class_axis_in_the_middle_is_found() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])

    roles = roles_of(recorded_step(loss))
    assert (roles.class_axis, roles.vocabulary) == (1, VOCABULARY)


def test_a_lookup_by_index_is_a_lookup_too() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        hidden = model.tokens.weight[tokens[:, :-1]]  # type: ignore[union-attr]  # a table
        logits = model.head(hidden)  # type: ignore[operator]  # a module
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    window = recorded_step(loss)
    roles = roles_of(window)
    assert roles.tokens is not None
    assert window.tape.layouts[roles.tokens].shape == batch()[:, :-1].shape


def test_a_loss_without_classes_has_no_logits() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return F.mse_loss(model(tokens[:, :-1]), torch.zeros(3, 8, VOCABULARY))

    assert roles_of(recorded_step(loss)).logits is None


def test_positions_of_packed_documents_and_codes_of_the_model_are_no_tokens() -> None:
    packed = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3]).expand(3, 8).contiguous()

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        hidden = model.tokens(tokens[:, :-1]) + model.positions(packed)  # type: ignore[operator]  # modules
        codes = (hidden @ model.head.weight.t()).argmax(-1)  # type: ignore[operator,union-attr]  # a matrix
        hidden = hidden + model.tokens.weight[codes]  # type: ignore[index,union-attr]  # a table
        logits = model.head(hidden)  # type: ignore[operator]  # a module
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    window = recorded_step(loss)
    roles = roles_of(window)
    found = token_values(window.tape, roles)
    assert found is not None
    assert torch.equal(found, batch()[:, :-1])


def test_of_two_texts_the_one_with_a_token_for_each_row_of_logits_counts() -> None:
    source = (batch() + 1) % VOCABULARY

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        encoded = model.tokens(source).mean(1, keepdim=True)  # type: ignore[operator]  # modules
        logits = model.head(model.tokens(tokens[:, :-1]) + encoded)  # type: ignore[operator]  # modules
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    window = recorded_step(loss)
    found = token_values(window.tape, roles_of(window))
    assert found is not None
    assert torch.equal(found, batch()[:, :-1])


def test_tokens_of_which_one_row_counts_up_are_tokens() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        tokens = tokens.clone()
        tokens[0] = torch.arange(tokens.shape[1])
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    window = recorded_step(loss)
    assert token_values(window.tape, roles_of(window)) is not None


def test_classes_that_are_ruled_out_on_the_way_hide_no_logits() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        logits = model(tokens)[:, :-1]
        out = torch.arange(VOCABULARY) == VOCABULARY - 1
        logits = torch.where(out, torch.tensor(-9.0), logits)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten() % (VOCABULARY - 1))

    window = recorded_step(loss)
    roles = roles_of(window)
    assert roles.logits is not None
    # Of all positions, before any slicing.
    assert math.prod(window.tape.layouts[roles.logits].shape) == 27 * VOCABULARY


def test_logits_that_are_picked_from_and_normalised_beside_are_found() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        logits, targets = model(tokens)[:, :-1], tokens[:, 1:, None]
        others = logits - logits.gather(-1, targets)
        return torch.logsumexp(others, -1).mean()

    window = recorded_step(loss)
    roles = roles_of(window)
    assert roles.targets is not None
    assert roles.logits is not None
    assert math.prod(window.tape.layouts[roles.logits].shape) == 27 * VOCABULARY
    found = alignment(window, roles)
    assert (found.offset, found.untested) == (1, None)
