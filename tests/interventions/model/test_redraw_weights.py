"""Initial weights drawn anew."""

from __future__ import annotations

import pytest
import torch
from changed_runs import Ran, with_changes
from torch import Tensor

from lossleuth.interventions.model.redraw_weights import RedrawWeights


def start_after(first: Tensor) -> Tensor:
    """The weight with which the second step begins."""
    seen: list[Tensor] = []

    def program() -> Ran:
        weight = first.clone().requires_grad_()
        optimizer = torch.optim.AdamW([weight], lr=0.1)
        for _ in range(2):
            seen.append(weight.detach().clone())
            optimizer.zero_grad()
            (weight - 1).square().sum().backward()
            optimizer.step()
        return Ran([], weight.detach())

    drawn = torch.get_rng_state()
    with_changes(program, RedrawWeights())
    # The program's own draws are not disturbed.
    assert torch.get_rng_state().equal(drawn)
    assert seen[0].equal(first)
    return seen[1]


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_a_matrix_without_variation_is_drawn_at_the_size_that_keeps_signals_level(
    value: float,
) -> None:
    found = start_after(torch.full((200, 64), value))
    assert float(found.square().mean().sqrt()) == pytest.approx(64**-0.5, rel=0.05)
    assert abs(float(found.mean())) < 0.01
    # The same in every run, so that runs can be paired.
    assert found.equal(start_after(torch.full((200, 64), value)))


def test_vectors_of_zeros_become_ones_and_others_stay() -> None:
    assert start_after(torch.zeros(3)).tolist() == [1, 1, 1]
    assert start_after(torch.full((3,), 2.0)).tolist() == [2, 2, 2]


def test_what_varies_is_left_as_it_began() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(4, 4)
    assert start_after(matrix).equal(matrix)
