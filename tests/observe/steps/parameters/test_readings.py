"""Readings from sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lossleuth.native.statistics import ParameterPass
from lossleuth.observe.steps.parameters.readings import READINGS, divisors, missing, readings


def test_readings_are_those_of_the_tensors() -> None:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(40))
    optimizer = torch.optim.Adam([weight], lr=0.1, eps=1e-8)
    weight.grad = torch.randn(40)
    weight.grad[:10] = 0
    measured = ParameterPass([weight])
    measured.before_update([weight], [weight.grad])
    before, gradient = weight.detach().double().clone(), weight.grad.double().clone()
    optimizer.step()
    state = optimizer.state[weight]
    raw = measured.after_update([state["exp_avg"]], [state["exp_avg_sq"]], [1e-8])
    row = dict(zip(READINGS, readings(raw, divisors([40]), [1.0])[0], strict=True))
    after = weight.detach().double()

    def rms(x: torch.Tensor) -> float:
        return x.double().square().mean().sqrt().item()

    assert row["grad_l2"] == pytest.approx(gradient.norm().item())
    assert row["grad_rms"] == pytest.approx(rms(gradient))
    assert row["grad_max"] == pytest.approx(gradient.abs().max().item())
    assert row["grad_mean"] == pytest.approx(gradient.mean().item())
    assert row["grad_zero_share"] == 0.25
    assert row["grad_nonfinite"] == 0
    assert row["weight_rms"] == pytest.approx(rms(after))
    assert row["update_rms"] == pytest.approx(rms(after - before))
    assert row["update_ratio"] == pytest.approx(rms(after - before) / rms(after))
    assert row["moment1_rms"] == pytest.approx(rms(state["exp_avg"]))
    assert row["moment2_rms"] == pytest.approx(state["exp_avg_sq"].double().mean().sqrt().item())
    assert row["moment2_min"] == 0
    assert row["epsilon_share"] == 0.25
    assert row["swallowed_share"] == 0
    assert row["age"] == 1


def test_what_is_missing_is_nan() -> None:
    assert np.isnan(missing(3)).all()
    assert missing(3).shape == (3, len(READINGS))
    assert math.isnan(missing(1)[0, 0])
