"""Gradients as the backward pass left them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from changed_runs import Net, Ran, sgd, trained, with_changes

from lossleuth.interventions.gradient.keep_gradients import KeepGradients


def clip(net: Net) -> None:
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-3)


def wipe(net: Net) -> None:
    net.zero_grad()


def fill_with_zeros(net: Net) -> None:
    for parameter in net.parameters():
        assert parameter.grad is not None
        parameter.grad.zero_()


def test_where_nothing_is_done_to_gradients_nothing_changes() -> None:
    assert with_changes(trained, KeepGradients()).is_exactly(trained())


def test_clipping_and_wiping_are_undone() -> None:
    for harm in (clip, wipe, fill_with_zeros):

        def harmed(harm: object = harm) -> Ran:
            return trained(make=sgd, before_step=harm)  # type: ignore[arg-type]  # one of three

        assert not harmed().is_exactly(trained(make=sgd))
        assert with_changes(harmed, KeepGradients()).is_exactly(trained(make=sgd))


@pytest.mark.parametrize("harm", [wipe, fill_with_zeros])
def test_what_is_wiped_in_place_of_being_cleared_does_not_pile_up(
    harm: Callable[[Net], None],
) -> None:
    """The program clears gradients at the wrong moment, and at no other."""
    ran = with_changes(
        lambda: trained(make=sgd, before_step=harm, clear=lambda optimizer: None), KeepGradients()
    )
    assert ran.is_exactly(trained(make=sgd))


def test_another_limit_takes_the_place_of_the_programs_own() -> None:
    def clipped_at(limit: float) -> Ran:
        def clip(net: Net) -> None:
            torch.nn.utils.clip_grad_norm_(net.parameters(), limit)

        return trained(make=sgd, before_step=clip)

    loosened = with_changes(lambda: clipped_at(1e-3), KeepGradients(norm=0.05))
    assert loosened.distance(clipped_at(0.05)) < 1e-6
    assert loosened.distance(clipped_at(1e-3)) > 1e-3


def test_two_optimizers_get_each_their_own() -> None:
    def alternating(harmed: bool) -> Ran:
        a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        one, two = torch.optim.SGD([a], lr=0.1), torch.optim.SGD([b], lr=0.2)
        losses = []
        for _ in range(4):
            loss = (a * b).square().sum()
            one.zero_grad()
            two.zero_grad()
            loss.backward()
            if harmed:
                torch.nn.utils.clip_grad_norm_([a, b], 1e-3)
            one.step()
            two.step()
            losses.append(loss.item())
        return Ran(losses, torch.cat([a, b]).detach())

    assert with_changes(lambda: alternating(True), KeepGradients()).is_exactly(alternating(False))


def test_a_scaled_loss_is_still_unscaled() -> None:
    def scaled(clips: bool) -> Ran:
        weight = torch.linspace(0.5, 2, 4).requires_grad_()
        optimizer = torch.optim.SGD([weight], lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        losses = []
        for _ in range(4):
            loss = weight.square().sum()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            if clips:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_([weight], 1e-3)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return Ran(losses, weight.detach().clone())

    assert with_changes(lambda: scaled(False), KeepGradients()).is_exactly(scaled(False))
    assert with_changes(lambda: scaled(True), KeepGradients()).is_exactly(scaled(False))


def test_an_optimizer_that_is_made_again_lets_nothing_pile_up() -> None:
    """Both hold the same parameters, which are noted twice."""

    def program(clears_in_time: bool) -> Ran:
        weight = torch.linspace(0.5, 2, 4).requires_grad_()
        losses = []
        for step in range(6):
            if step % 3 == 0:
                optimizer = torch.optim.SGD([weight], lr=0.01)
            loss = weight.square().sum()
            if clears_in_time:
                optimizer.zero_grad()
            loss.backward()
            if not clears_in_time:
                optimizer.zero_grad()
            optimizer.step()
            losses.append(loss.item())
        return Ran(losses, weight.detach().clone())

    assert with_changes(lambda: program(False), KeepGradients()).is_exactly(program(True))
