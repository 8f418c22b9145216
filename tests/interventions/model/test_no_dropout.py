"""Nothing dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from changed_runs import Net, Ran, trained, with_changes
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.interventions.model.no_dropout import NoDropout

Between = Callable[[Tensor], Tensor]


def attention(share: float) -> Between:
    def between(x: Tensor) -> Tensor:
        return x + F.scaled_dot_product_attention(x, x, x, dropout_p=share, is_causal=True)

    return between


def several_heads(share: float, weights: bool) -> Between:
    module = nn.MultiheadAttention(8, 2, dropout=share, batch_first=True)
    return lambda x: x + module(x, x, x, need_weights=weights)[0]


def recurrent(kind: Any, share: float) -> Between:
    module = kind(8, 8, num_layers=2, dropout=share, batch_first=True)
    return lambda x: module(x)[0]  # type: ignore[no-any-return]  # a tensor


# Each with the share that is dropped as its dose.
DROPPING: dict[str, Callable[[float], Between]] = {
    "module": lambda p: nn.Dropout(p),
    "module in place": lambda p: lambda x: nn.Dropout(p, inplace=True)(x * 1.0),
    "channels": lambda p: nn.Dropout1d(p),
    "alpha": lambda p: nn.AlphaDropout(p),
    "feature alpha": lambda p: nn.FeatureAlphaDropout(p),
    "function": lambda p: lambda x: F.dropout(x, p),
    "function of torch": lambda p: lambda x: torch.dropout(x, p, True),
    "in place of torch": lambda p: lambda x: torch.dropout_(x * 1.0, p, True),
    "attention": attention,
    "several heads": lambda p: several_heads(p, weights=False),
    "several heads with weights": lambda p: several_heads(p, weights=True),
    "recurrent": lambda p: recurrent(nn.GRU, p),
    "long memory": lambda p: recurrent(nn.LSTM, p),
    "plain recurrent": lambda p: recurrent(nn.RNN, p),
}


def dropping(kind: str, share: float) -> Ran:
    def plant(net: Net) -> None:
        torch.manual_seed(1)
        net.between = DROPPING[kind](share)

    return trained(plant=plant)


@pytest.mark.parametrize("kind", DROPPING)
def test_a_run_with_dropout_becomes_the_one_without(kind: str) -> None:
    assert dropping(kind, 0.4).distance(dropping(kind, 0.0)) > 1e-4
    assert with_changes(lambda: dropping(kind, 0.4), NoDropout()).is_exactly(dropping(kind, 0.0))


@pytest.mark.parametrize("kind", DROPPING)
def test_without_dropout_nothing_changes(kind: str) -> None:
    assert with_changes(lambda: dropping(kind, 0.0), NoDropout()).is_exactly(dropping(kind, 0.0))


@pytest.mark.parametrize("kind", [k for k in DROPPING if "recurrent" not in k and "long" not in k])
def test_all_other_random_numbers_stay_what_they_were(kind: str) -> None:
    def drawn_after() -> Ran:
        dropping(kind, 0.4)
        return Ran([float(x) for x in torch.rand(4)], torch.zeros(1))

    assert with_changes(drawn_after, NoDropout()).is_exactly(drawn_after())


def test_the_program_still_reads_its_own_shares() -> None:
    def program() -> Ran:
        net, dropout = nn.LSTM(2, 2, num_layers=2, dropout=0.3), nn.Dropout(0.7)
        net(dropout(torch.ones(1, 1, 2)))
        return Ran([net.dropout, dropout.p], torch.zeros(1))

    assert with_changes(program, NoDropout()).losses == [0.3, 0.7]


def test_dropout_that_is_left_on_in_evaluation_is_off_too() -> None:
    def program() -> Ran:
        with torch.no_grad():
            return Ran([], F.dropout(torch.ones(100), 0.5))

    assert with_changes(program, NoDropout()).weights.equal(torch.ones(100))


def test_a_share_that_is_none_is_still_an_error() -> None:
    def program() -> Ran:
        with pytest.raises(ValueError, match="between 0 and 1"):
            F.dropout(torch.ones(2), 1.5)
        return trained(1)

    assert with_changes(program, NoDropout()).is_exactly(trained(1))
