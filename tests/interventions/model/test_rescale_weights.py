"""Initial weights rescaled."""

from __future__ import annotations

import pytest
import torch
from changed_runs import Ran, with_changes
from torch import Tensor

from lossleuth.interventions.model.rescale_weights import RescaleWeights


def start_after(first: Tensor, **options: float) -> Tensor:
    """The weight with which the second step begins."""
    seen: list[Tensor] = []

    def program() -> Ran:
        weight = first.clone().requires_grad_()
        optimizer = torch.optim.AdamW([weight], lr=0.1)
        for _ in range(2):
            seen.append(weight.detach().clone())
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()
        return Ran([], weight.detach())

    with_changes(program, RescaleWeights(**options))
    assert seen[0].equal(first)
    return seen[1]


def rms(weight: Tensor) -> float:
    return float(weight.square().mean().sqrt())


@pytest.mark.parametrize(
    ("shape", "wanted"), [((16, 16), 0.25), ((16, 64), 0.125), ((100, 16), 0.02), ((5,), 1.0)]
)
def test_what_is_too_large_gets_the_size_that_keeps_signals_level(
    shape: tuple[int, ...], wanted: float
) -> None:
    torch.manual_seed(0)
    large = 10 * torch.randn(shape)
    found = start_after(large)
    assert rms(found) == pytest.approx(wanted, rel=1e-5)
    # Nothing but the size has changed.
    assert torch.allclose(found / rms(found), large / rms(large), atol=1e-5)


@pytest.mark.parametrize("shape", [(16, 16), (5,)])
def test_what_is_small_enough_is_left_as_it_began(shape: tuple[int, ...]) -> None:
    small = 0.01 * torch.ones(shape)
    assert start_after(small).equal(small)
    assert start_after(torch.zeros(shape)).equal(torch.zeros(shape))


def test_the_size_of_tables_is_a_dose() -> None:
    assert rms(start_after(torch.randn(100, 4), table_rms=0.3)) == pytest.approx(0.3, rel=1e-5)


def test_after_its_start_the_run_is_the_one_from_smaller_weights() -> None:
    def program(first: Tensor, steps: int) -> Ran:
        weight = first.clone().requires_grad_()
        optimizer = torch.optim.AdamW([weight], lr=0.1)
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (weight - 1).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return Ran(losses, weight.detach())

    large = torch.full((4, 4), 50.0)
    found = with_changes(lambda: program(large, 5), RescaleWeights())
    expected = program(torch.full((4, 4), 0.5), 4)
    # The optimizer remembers nothing of the first step.
    assert found.losses[1:] == pytest.approx(expected.losses, rel=1e-5)


def test_weights_that_are_updated_by_hand_start_smaller_too() -> None:
    def program(first: Tensor, steps: int) -> Ran:
        weight = first.clone().requires_grad_()
        losses = []
        for _ in range(steps):
            weight.grad = None
            loss = (weight - 1).square().sum()
            loss.backward()
            assert weight.grad is not None
            weight.data -= 0.1 * weight.grad
            losses.append(loss.item())
        return Ran(losses, weight.detach())

    large = torch.full((4, 4), 50.0)
    found = with_changes(lambda: program(large, 5), RescaleWeights())
    expected = program(torch.full((4, 4), 0.5), 3)
    # Without a lookup or a module, the update is noticed once the second loss is there.
    assert found.losses[2:] == pytest.approx(expected.losses, rel=1e-5)
