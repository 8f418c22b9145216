"""Faulty number formats are what their faults say."""

from __future__ import annotations

import math

import pytest
import torch
from small_hosts import differs, planted_in, small

from lossleuth.labs.lab.programs.planting import Planted, fault_of, planted
from lossleuth.labs.lab.programs.training_parts import Parts

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("host", "name"), planted_in("precision_faults.py"))
def test_it_changes_what_the_host_does(host: str, name: str) -> None:
    assert differs(host, name)


def parts_with(name: str, dose: float | None = None, host: str = "plain") -> Parts:
    return planted(small(host), [Planted(fault_of(name), dose)])


def test_large_scores_sum_up_to_infinity() -> None:
    targets_BT = torch.zeros(16, 32, dtype=torch.long)
    loss = parts_with("overflow").loss
    assert math.isfinite(loss(torch.full((16, 32, 64), 0.5), targets_BT).item())
    assert math.isinf(loss(torch.full((16, 32, 64), 2.0), targets_BT).item())


def test_small_updates_leave_the_weights_as_they_are() -> None:
    parts = parts_with("update_swallowed", 0.1)
    model = parts.model(parts.settings)
    optimizer = parts.optimizer(model, parts.settings)
    inputs_BT, targets_BT = next(parts.batches(parts.settings))
    before = torch.cat([p.detach().flatten() for p in model.parameters()])
    parts.backward(parts.loss(parts.forward(model, inputs_BT), targets_BT))
    parts.update(optimizer, None)
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert after.dtype == torch.bfloat16
    assert (before == after).double().mean() > 0.3


def test_rounding_makes_another_gradient() -> None:
    parts = parts_with("rounding_error")
    torch.manual_seed(0)
    model = parts.model(parts.settings)
    inputs_BT, targets_BT = next(parts.batches(parts.settings))
    embedded = parts.embed(model, inputs_BT) + fault_of("rounding_error").dose
    exact = embedded.var(-1, unbiased=False)
    rough = embedded.bfloat16().pow(2).mean(-1) - embedded.bfloat16().mean(-1).pow(2)
    assert ((rough.float() - exact).abs() / exact).median() > 0.5
    assert math.isfinite(parts.loss(parts.forward(model, inputs_BT), targets_BT).item())
