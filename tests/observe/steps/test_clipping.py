"""What clipping did, against the gradient itself."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from lossleuth.native.handles import handles
from lossleuth.observe.steps.clipping import (
    Clip,
    ClipImpact,
    clip_effect,
    kept,
    plain_number,
    value_clip_effect,
)


def gradients() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.zeros(n)) for n in (4, 6, 5)]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape)
    return parameters


def flat(parameters: list[torch.nn.Parameter]) -> torch.Tensor:
    return torch.cat([p.grad for p in parameters if p.grad is not None]).double()


@pytest.mark.parametrize("part", [slice(0, 3), slice(0, 2), slice(2, 3)])
@pytest.mark.parametrize("limit", [0.3, 100.0])
def test_norm_factor_and_cosine_are_those_of_the_gradient(part: slice, limit: float) -> None:
    parameters = gradients()
    before = flat(parameters)
    norm = torch.nn.utils.clip_grad_norm_(parameters[part], limit)
    after = flat(parameters)
    effect = clip_effect(after.norm().item(), [Clip(norm, limit)])
    assert effect.norm_before == pytest.approx(before.norm().item(), rel=1e-5)
    assert effect.factor == pytest.approx((after.norm() / before.norm()).item(), rel=1e-5)
    cosine = torch.dot(before, after) / before.norm() / after.norm()
    assert effect.cosine == pytest.approx(cosine.item(), rel=1e-5)


def test_clipping_by_value_is_measured_before_it_happens() -> None:
    parameters = gradients()
    before = flat(parameters)
    norm, cosine = value_clip_effect(parameters, 0.2)
    torch.nn.utils.clip_grad_value_(parameters, 0.2)
    after = flat(parameters)
    assert norm == pytest.approx(before.norm().item())
    assert cosine == pytest.approx((before @ after / before.norm() / after.norm()).item())
    effect = clip_effect(after.norm().item(), [Clip(norm, 0.2, by_value=True, cosine=cosine)])
    assert effect.norm_before == pytest.approx(norm)
    assert effect.cosine == pytest.approx(cosine)


def test_a_gradient_that_is_not_finite_does_not_break_the_arithmetic() -> None:
    effect = clip_effect(math.nan, [Clip(math.nan, 1.0)])
    assert math.isnan(effect.factor) or effect.factor == 1.0


def test_numbers_are_read_past_the_replaced_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "item", lambda self: 1 / 0)
    assert plain_number(torch.tensor(2.5)) == 2.5


def test_the_impact_is_that_of_a_real_adam_on_a_gradient_of_one_direction() -> None:
    norms = [3.0, 0.4, 9.0, 0.2, 30.0, 1.0]
    moved: dict[bool, list[float]] = {}
    for clips in (True, False):
        weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
        optimizer = torch.optim.Adam([weight], lr=1.0, betas=(0.8, 0.95), eps=0.0)
        for norm in norms:
            weight.grad = torch.full_like(weight, norm)
            if clips:
                torch.nn.utils.clip_grad_norm_([weight], 1.0)
            before = weight.item()
            optimizer.step()
            moved.setdefault(clips, []).append(abs(weight.item() - before))
    impact = ClipImpact()
    found = [impact.after(norm, min(1.0, 1 / norm), (0.8, 0.95)) for norm in norms]
    wanted = [a / b for a, b in zip(moved[True], moved[False], strict=True)]
    # Torch adds 1e-6 to the norm that it divides by.
    assert found == pytest.approx(wanted, rel=1e-5)


def test_a_number_inside_a_transform_of_torch_func_is_read_as_it_is() -> None:
    seen: list[float] = []

    def square(x: torch.Tensor) -> torch.Tensor:
        value = x * x
        seen.append(kept(value))
        return value

    assert torch.func.grad(square)(torch.tensor(3.0)).item() == 6
    assert seen == [9.0]


@pytest.mark.parametrize("how", ["a plain number", "with a graph", "half", "a view", "negated"])
def test_a_number_is_the_same_however_it_is_read(how: str) -> None:
    value: Any = {
        "a plain number": 2.5,
        "with a graph": torch.tensor(2.5, requires_grad=True) * 1,
        "half": torch.tensor(2.5, dtype=torch.bfloat16),
        "a view": torch.tensor([[0.0, 2.5]])[:, 1],
        "negated": torch.tensor(0.5 - 2.5j).conj().imag,
    }[how]
    assert kept(value) == kept(value, handles()) == 2.5


def test_a_number_is_kept_as_it_was() -> None:
    norm = torch.tensor(2.5)
    found = kept(norm), kept(norm, handles())
    norm.mul_(2)
    assert found == (2.5, 2.5)


def test_in_inference_mode_a_number_is_read() -> None:
    with torch.inference_mode():
        assert kept(torch.tensor(2.5), handles()) == 2.5
