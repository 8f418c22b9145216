"""What is asked of the logits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from steps import VOCABULARY, batch, recorded_step, shifted_loss, step_model
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.gradient import LogitGradient
from lossleuth.probes.gradient.logit_gradient import logit_gradients


def found(loss_of: Callable[[nn.Module, Tensor], Tensor]) -> LogitGradient:
    (gradient,) = logit_gradients(recorded_step(loss_of))
    return gradient


@pytest.mark.parametrize("factor", [1.0, 3.0, 0.25, 24.0])
def test_a_scaled_cross_entropy_has_its_factor(factor: float) -> None:
    gradient = found(lambda model, tokens: factor * shifted_loss(model, tokens))
    assert gradient.untested is None
    assert gradient.cosine == pytest.approx(1, abs=1e-9)
    assert gradient.scale == pytest.approx(factor, rel=1e-9)
    assert gradient.count == 24


def test_a_sum_is_as_many_times_too_large_as_it_has_targets() -> None:
    def summed(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens[:, :-1]).flatten(0, 1)
        return F.cross_entropy(scores, tokens[:, 1:].flatten(), reduction="sum")

    assert found(summed).scale == pytest.approx(24, rel=1e-9)


def test_a_loss_that_is_turned_around_asks_for_the_opposite() -> None:
    gradient = found(lambda model, tokens: -shifted_loss(model, tokens))
    assert gradient.cosine == pytest.approx(-1, abs=1e-9)
    assert gradient.scale == pytest.approx(-1, rel=1e-9)


def test_direction_and_size_are_those_of_the_two_gradients() -> None:
    def smoothed(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens[:, :-1]).flatten(0, 1)
        return F.cross_entropy(scores, tokens[:, 1:].flatten(), label_smoothing=0.5)

    window = recorded_step(smoothed)
    (gradient,) = logit_gradients(window)
    rows = step_model(window)(batch()[:, :-1]).flatten(0, 1).detach()
    right = F.one_hot(batch()[:, 1:].flatten(), VOCABULARY).double()
    plain = (rows.softmax(-1) - right) / 24
    used = (rows.softmax(-1) - 0.5 * right - 0.5 / VOCABULARY) / 24
    cosine = float((plain * used).sum() / plain.norm() / used.norm())
    assert cosine < 0.9999
    assert gradient.cosine == pytest.approx(cosine, abs=1e-9)
    assert gradient.scale == pytest.approx(
        float((plain * used).sum() / plain.square().sum()), rel=1e-9
    )


def test_terms_beside_the_loss_do_not_disturb() -> None:
    def penalised(model: nn.Module, tokens: Tensor) -> Tensor:
        return shifted_loss(model, tokens) + sum(p.square().sum() for p in model.parameters())

    assert found(penalised).scale == pytest.approx(1, rel=1e-9)


def test_targets_that_do_not_count_are_not_counted() -> None:
    def masked(model: nn.Module, tokens: Tensor) -> Tensor:
        aims = tokens[:, 1:].clone()
        aims[0] = -100
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), aims.flatten())

    gradient = found(masked)
    assert gradient.count == 16
    assert gradient.scale == pytest.approx(1, rel=1e-9)


def test_one_answer_for_each_micro_batch() -> None:
    from lossleuth.tape.capture.recorder import Recorder

    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY))
    recorder = Recorder(0)
    recorder.start()
    try:
        for rows, parts in ((batch()[:2], 2), (batch()[2:], 4)):
            loss = shifted_loss(model, rows) / parts
            run = recorder.begin_backward([loss], [None])
            loss.backward()
            recorder.end_backward(run)
    finally:
        recorder.stop()
    one, two = logit_gradients(recorder.window)
    assert (one.count, two.count) == (16, 8)
    assert (one.scale, two.scale) == (pytest.approx(0.5), pytest.approx(0.25))


def test_without_targets_nothing_is_claimed() -> None:
    gradient = found(lambda model, tokens: model(tokens).square().mean())
    assert gradient.untested == "no logits and targets were found"
    assert (gradient.cosine, gradient.scale) == (None, None)


def test_a_loss_without_a_supervised_target_is_said_to_be_one() -> None:
    def nothing(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens[:, :-1]).flatten(0, 1)
        return F.cross_entropy(scores, torch.full_like(tokens[:, 1:], -100).flatten())

    assert found(nothing).untested == "no target is supervised"
