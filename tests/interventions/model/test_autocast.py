"""Autocast off, and on."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import pytest
import torch
from changed_runs import Net, Ran, entropy, trained, with_changes
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.interventions.model.autocast import Autocast


def under_autocast(net: Net) -> None:
    """The forward pass of a program with mixed precision."""
    forward = net.forward

    def narrow(tokens: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made = forward(tokens)
        return made.float()

    net.forward = narrow  # type: ignore[method-assign]  # one instance


def by_switch(net: Net) -> None:
    """The same by torch's setters."""
    forward = net.forward

    def narrow(tokens: Tensor) -> Tensor:
        torch.set_autocast_enabled("cpu", True)
        try:
            return forward(tokens).float()
        finally:
            torch.set_autocast_enabled(device_type="cpu", enabled=False)
            torch.clear_autocast_cache()

    net.forward = narrow  # type: ignore[method-assign]  # one instance


def decorated(net: Net) -> None:
    net.forward = torch.autocast("cpu", torch.bfloat16)(net.forward)  # type: ignore[method-assign]  # one instance


@pytest.mark.parametrize("plant", [under_autocast, by_switch, decorated])
def test_switched_off_a_program_is_the_one_without(plant: Any) -> None:
    def mixed() -> Ran:
        return trained(plant=plant)

    assert mixed().distance(trained()) > 1e-4
    assert with_changes(mixed, Autocast(False)).is_exactly(trained())
    # And torch is as it was.
    assert mixed().distance(trained()) > 1e-4


def test_switched_off_a_program_without_it_is_left_as_it_is() -> None:
    assert with_changes(trained, Autocast(False)).is_exactly(trained())


def test_switched_off_the_program_still_reads_what_it_asked_for() -> None:
    read: list[tuple[bool, bool]] = []

    def program() -> Ran:
        with torch.autocast("cpu") as asked:
            read.append((asked._enabled, torch.is_autocast_enabled("cpu")))
        return trained(1)

    with_changes(program, Autocast(False))
    assert read == [(True, False)]


def test_switched_on_every_forward_pass_is_narrow_and_the_loss_is_not() -> None:
    mixed = trained(plant=under_autocast)
    assert mixed.distance(trained()) > 1e-4
    assert with_changes(trained, Autocast(True)).is_exactly(mixed)
    assert not torch.is_autocast_enabled("cpu")


def test_switched_on_a_program_that_has_it_is_left_as_it_is() -> None:
    def mixed() -> Ran:
        torch.manual_seed(0)
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
        losses = []
        for _ in range(3):
            tokens = torch.arange(8).reshape(2, 4)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                scores = net(tokens)
                assert scores.dtype == torch.bfloat16
                loss = entropy(scores, tokens)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return Ran(losses, net.head.weight.detach())

    assert with_changes(mixed, Autocast(True)).is_exactly(mixed())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_switched_on_a_model_of_another_precision_keeps_it(dtype: torch.dtype) -> None:
    def other() -> Ran:
        return trained(dtype=dtype)

    assert with_changes(other, Autocast(True)).is_exactly(other())


def test_switched_on_what_a_model_keeps_precise_stays_so() -> None:
    class Careful(nn.Module):
        """Has a part that must not be narrow, and says so."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.exact: list[bool] = []

        def forward(self, x: Tensor) -> Tensor:
            narrow = self.inner(x)
            with torch.autocast("cpu", enabled=False):
                true = F.linear(x, self.inner.weight, self.inner.bias)
                # Rounded to bfloat16 and back, it would be another.
                self.exact += [narrow.float().equal(true), self.inner(x).equal(true)]
            return narrow

    net = Careful()

    def run() -> Ran:
        return Ran([], net(torch.ones(2, 4)).detach())

    assert with_changes(run, Autocast(True)).weights.dtype == torch.float32
    assert net.exact == [False, True]


def test_switched_on_whatever_a_model_gives_is_wide_again() -> None:
    class Both(NamedTuple):
        scores: Tensor
        hidden: dict[str, Tensor]
        count: int

    class Giving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Both:
            made = self.inner(x)
            return Both(made, {"last": made, "kept": x}, 3)

    def run() -> Ran:
        found = Giving()(torch.ones(2, 4))
        assert found.scores.dtype == found.hidden["last"].dtype == torch.float32
        assert (type(found), found.count) == (Both, 3)
        return Ran([], found.scores.detach())

    exact = run().weights
    rounded = with_changes(run, Autocast(True)).weights
    assert rounded.equal(rounded.bfloat16().float()) and not exact.equal(exact.bfloat16().float())


def test_switched_on_a_model_that_fails_leaves_the_next_one_narrow() -> None:
    class Failing(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            raise ValueError("not today")

    def run() -> Ran:
        with contextlib.suppress(ValueError):
            Failing(2, 2)(torch.ones(1, 2))
        assert not torch.is_autocast_enabled("cpu")
        return trained()

    assert with_changes(run, Autocast(True)).is_exactly(trained(plant=under_autocast))
