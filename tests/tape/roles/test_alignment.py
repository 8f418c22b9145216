"""Which token a target is."""

from __future__ import annotations

import pytest
import torch
from steps import recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.data import Alignment
from lossleuth.tape.roles.alignment import Supervision, alignment
from lossleuth.tape.roles.roles import find_roles


def aligned(loss: object) -> Alignment:
    window = recorded_step(loss)  # type: ignore[arg-type]  # a loss function
    return alignment(window, find_roles(window))


def shifted_by(offset: int) -> object:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        length = tokens.shape[1] - max(offset, 0)
        logits = model(tokens[:, :length])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, offset : offset + length].flatten())

    return loss


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_the_offset_of_targets_is_found(offset: int) -> None:
    found = aligned(shifted_by(offset))
    assert found.untested is None
    assert found.offset == offset
    assert found.shares[offset] == 1


def test_logits_that_are_shifted_count_from_their_own_position() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        logits = model(tokens)[:, :-1].contiguous()
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))

    assert aligned(loss).offset == 1


def test_a_double_shift_is_two() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        labels = tokens[:, 1:]
        logits = model(tokens[:, :-1])[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())

    assert aligned(loss).offset == 2


def test_masked_targets_are_not_counted() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        labels = tokens[:, 1:].clone()
        labels[:, :5] = -100
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), labels.flatten())

    found = aligned(loss)
    assert (found.offset, found.supervised, found.targets) == (1, 9, 24)


def test_a_loss_written_with_gather_is_understood() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens[:, :-1]).log_softmax(-1)
        return -scores.gather(-1, tokens[:, 1:, None]).mean()

    assert aligned(loss).offset == 1


def test_targets_that_are_no_tokens_of_the_input_have_no_offset() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        labels = (tokens[:, 1:] * 7 + 3) % 23
        labels = labels.flip(0)
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), labels.flatten())

    found = aligned(loss)
    assert found.offset is None


def test_a_permuted_selection_of_rows_is_followed() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        logits = model(tokens[:, :-1]).flatten(0, 1)
        kept = torch.tensor([5, 0, 17, 9])
        return F.cross_entropy(logits[kept], tokens[:, 1:].flatten()[kept])

    found = aligned(loss)
    assert (found.offset, found.targets) == (1, 4)


def test_a_class_that_is_masked_on_the_way_does_not_confuse() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        logits = model(tokens[:, :-1]) * 1.0
        logits[..., 0] = -1e4
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    assert aligned(loss).offset == 1


def test_a_handful_of_labels_agrees_with_padding_by_chance() -> None:
    tokens = torch.zeros(32, 6, dtype=torch.long)
    tokens[:, :3] = torch.randint(1, 20, (32, 3), generator=torch.Generator().manual_seed(0))
    ends = torch.arange(32) * 6 + 5
    labels = (torch.arange(32) % 3 == 0).long()
    found = Supervision(tokens, ends, labels, torch.ones(32, dtype=torch.bool))
    assert max(found.shares(0).values()) > 0.5
    assert not found.is_ordered and not found.is_text and found.time_axis == 1


@pytest.mark.parametrize(("classes", "is_word"), [(23, True), (9, False)])
def test_the_one_target_is_told_where_classes_are_tokens(classes: int, is_word: bool) -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens[:, :-1])[..., :classes].flatten(0, 1)
        return F.cross_entropy(scores, torch.full((len(scores),), 4))

    assert aligned(loss).only_target == (4 if is_word else None)
    assert aligned(shifted_by(1)).only_target is None
