"""Weights and the axis that they are used along."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from steps import SmallModel, recorded_step
from torch import Tensor
from torch.nn import functional as F

from lossleuth.probes.model.attention_axes import crossed_weights
from lossleuth.tape.roles.roles import find_roles

Attend = Callable[[Tensor], Tensor]


def crossed(attend: Attend) -> list[tuple[str | None, int | None]]:
    def plant(model: SmallModel) -> None:
        model.between = attend

    window = recorded_step(change=plant)
    return crossed_weights(window.tape, find_roles(window))


def by_einsum(axis: int) -> Attend:
    def attend(h: Tensor) -> Tensor:
        heads = h.unflatten(-1, (2, -1))
        scores = torch.einsum("bqhd,bkhd->bhqk", heads, heads)
        return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(axis), heads).flatten(-2)

    return attend


def by_hand(axis: int) -> Attend:
    def attend(h: Tensor) -> Tensor:
        powers = (h @ h.transpose(-1, -2)).exp()
        return (powers / powers.sum(axis, keepdim=True)) @ h

    return attend


def with_dropout(axis: int) -> Attend:
    def attend(h: Tensor) -> Tensor:
        weights = F.dropout((h @ h.transpose(-1, -2)).softmax(axis), 0.3, training=True)
        return weights @ h

    return attend


def from_the_right(axis: int) -> Attend:
    """Keys first: the weights are the second factor."""

    def attend(h: Tensor) -> Tensor:
        weights = (h @ h.transpose(-1, -2)).softmax(axis)
        return (h.transpose(-1, -2) @ weights).transpose(-1, -2)

    return attend


@pytest.mark.parametrize("make", [by_einsum, by_hand, with_dropout])
def test_weights_over_queries_are_found_however_they_were_made(
    make: Callable[[int], Attend],
) -> None:
    ((file, _),) = crossed(make(-2))
    assert file == __file__
    assert crossed(make(-1)) == []


def test_weights_over_heads_are_found() -> None:
    assert len(crossed(by_einsum(1))) == 1


def test_the_second_factor_is_summed_over_its_rows() -> None:
    assert crossed(from_the_right(-2)) == []
    assert len(crossed(from_the_right(-1))) == 1


def test_a_part_of_the_weights_is_used_along_their_axis() -> None:
    def best_few(h: Tensor) -> Tensor:
        weights = (h @ h.transpose(-1, -2)).softmax(-1)
        return weights[..., :3] @ h[..., :3, :]

    assert crossed(best_few) == []


def test_a_table_that_picks_is_no_weight() -> None:
    def picked(h: Tensor) -> Tensor:
        shifted = torch.eye(h.shape[1]).roll(1, 0)
        return (shifted * 1.0) @ h

    assert crossed(picked) == []


def test_without_roles_there_is_nothing_to_see() -> None:
    assert crossed_weights(recorded_step().tape, None) == []
