"""Dropout that drops nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from steps import SmallModel, batch, recorded_step, step_model
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window


def replayed(window: Window, **more: Any) -> Tensor:
    roles = find_roles(window)
    assert roles is not None and roles.scores is not None
    replay = Replay(window.tape, gradients=False, **more)
    return replay.run([roles.scores], before=roles.scores_at)[roles.scores]


def attending(share: float) -> Callable[[Tensor], Tensor]:
    def attend(h: Tensor) -> Tensor:
        return h + F.scaled_dot_product_attention(h, h, h, dropout_p=share)

    return attend


def weights_dropped(share: float) -> Callable[[Tensor], Tensor]:
    def attend(h: Tensor) -> Tensor:
        weights = (h @ h.transpose(-1, -2)).softmax(-1)
        return h + F.dropout(weights, share, training=share > 0) @ h

    return attend


DROPPING: list[tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = [
    (nn.Dropout(0.4), lambda h: h),
    # A half is what the operator takes by default, and is not passed on to it.
    (nn.Dropout(0.5), lambda h: h),
    (lambda h: F.dropout(h * 1.0, 0.4, inplace=True), lambda h: h),
    (lambda h: torch.ops.aten.native_dropout(h, 0.4, True)[0], lambda h: h),
    (nn.Dropout1d(0.4), lambda h: h),
    (nn.AlphaDropout(0.0), lambda h: h),
    (attending(0.4), attending(0.0)),
    (weights_dropped(0.4), weights_dropped(0.0)),
]


@pytest.mark.parametrize(("dropping", "plain"), DROPPING)
def test_the_replay_is_that_of_an_evaluation(
    dropping: Callable[[Tensor], Tensor], plain: Callable[[Tensor], Tensor]
) -> None:
    def plant(model: SmallModel) -> None:
        model.between = dropping

    window = recorded_step(change=plant)
    model = step_model(window)
    model.between = plain
    expected = model(batch()[:, :-1]).flatten(0, 1).detach()
    assert torch.allclose(replayed(window, dropout=False), expected, rtol=0, atol=1e-12)


def test_with_dropout_on_the_recorded_masks_are_used() -> None:
    def plant(model: SmallModel) -> None:
        model.between = nn.Dropout(0.4)

    window = recorded_step(change=plant)
    assert torch.equal(replayed(window), replayed(window))
    assert not torch.allclose(replayed(window), replayed(window, dropout=False), atol=1e-3)


def test_other_noise_is_left_as_it_was() -> None:
    def plant(model: SmallModel) -> None:
        model.between = lambda h: h + 0.1 * torch.randn_like(h)

    window = recorded_step(change=plant)
    assert torch.equal(replayed(window), replayed(window, dropout=False))
