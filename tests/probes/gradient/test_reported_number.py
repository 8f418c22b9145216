"""What is reported against what is followed."""

from __future__ import annotations

import pytest
import torch
from steps import SmallModel, recorded_step, shifted_loss
from torch import Tensor, nn

from lossleuth.findings.gradient import ReportedNumber
from lossleuth.probes.gradient.reported_number import reported_numbers


def reports(loss: object) -> list[ReportedNumber]:
    window = recorded_step(loss)  # type: ignore[arg-type]  # a loss function
    return reported_numbers(window)


def test_the_loss_itself_is_what_is_followed() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        value = shifted_loss(model, tokens)
        value.item()
        return value

    (found,) = reports(loss)
    assert found.cosine == pytest.approx(1)
    assert found.place is not None
    assert __file__ in found.place


def test_a_scaled_report_has_the_same_direction() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        value = shifted_loss(model, tokens)
        value.detach().mul(4).item()
        return value

    (found,) = reports(loss)
    assert found.cosine == pytest.approx(1)


def test_another_term_that_steers_shows_in_the_cosine() -> None:
    def loss(model: SmallModel, tokens: Tensor) -> Tensor:
        value = shifted_loss(model, tokens)
        value.item()
        return value + 30 * model.qkv.weight.square().sum()

    (found,) = reports(loss)
    assert found.cosine is not None
    assert abs(found.cosine) < 0.5


def test_numbers_that_do_not_depend_on_the_model_are_no_reports() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        torch.ones(3).mean().item()
        return shifted_loss(model, tokens)

    assert reports(loss) == []


def test_an_evaluation_is_no_report() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        with torch.no_grad():
            shifted_loss(model, tokens.flip(1)).item()
        return shifted_loss(model, tokens)

    assert reports(loss) == []


def test_sparse_gradients_are_compared_too() -> None:
    def plant(model: SmallModel) -> None:
        model.tokens.sparse = True

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        value = shifted_loss(model, tokens)
        value.item()
        return value

    window = recorded_step(loss, plant, lambda p: torch.optim.SGD(p, lr=0.1))
    (found,) = reported_numbers(window)
    assert found.cosine == pytest.approx(1)


def test_of_several_backward_passes_the_nearest_counts() -> None:
    window = recorded_step(_read_after_both)
    (found,) = reported_numbers(window)
    assert found.cosine == pytest.approx(1)


def _read_after_both(model: nn.Module, tokens: Tensor) -> Tensor:
    other = shifted_loss(model, tokens.flip(1))
    value = shifted_loss(model, tokens)
    value.item()
    # Differentiated together, as two passes of a step would be.
    return value + 0 * other
