"""What logits depend on."""

from __future__ import annotations

import torch
from steps import SmallModel, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.leaks import Leaks, leaks
from lossleuth.tape.roles import find_roles
from lossleuth.tape.window import Window


def leaks_of(window: Window) -> Leaks:
    return leaks(window, find_roles(window))


def test_a_sound_model_leaks_exactly_nothing() -> None:
    found = leaks_of(recorded_step())
    assert found.untested is None
    assert (found.future, found.batch) == (0, 0)
    assert found.own is not None
    assert found.own > 0.1
    assert found.order is not None
    assert found.order > 1e-3


def test_a_missing_mask_lets_the_future_in() -> None:
    def plant(model: SmallModel) -> None:
        model.causal = False

    found = leaks_of(recorded_step(change=plant))
    assert found.future is not None
    assert found.future > 1e-3
    assert found.batch == 0


def test_rows_that_mix_are_a_batch_leak() -> None:
    def plant(model: SmallModel) -> None:
        model.mixes_rows = True

    found = leaks_of(recorded_step(change=plant))
    assert found.batch is not None
    assert found.batch > 1e-3
    assert found.future == 0


def test_a_model_that_ignores_its_input_shows_it() -> None:
    def plant(model: SmallModel) -> None:
        model.between = lambda h: torch.zeros_like(h) + h.mean() * 0

    found = leaks_of(recorded_step(change=plant))
    assert found.own == 0


def test_without_tokens_nothing_is_claimed() -> None:
    def regression(model: nn.Module, tokens: Tensor) -> Tensor:
        return F.mse_loss(model(tokens[:, :-1]), torch.zeros(3, 8, 23))

    found = leaks_of(recorded_step(regression))
    assert found.untested is not None
    assert found.future is None
