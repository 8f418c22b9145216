"""What an optimizer remembers."""

from __future__ import annotations

import math

import pytest
import torch

from lossleuth.observe.steps.parameters.moments import moments_of


def stepped(kind: type[torch.optim.Optimizer], **settings: float) -> tuple[object, list[object]]:
    weights = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    weights[0].grad = torch.ones(3)
    optimizer = kind(weights, **settings)  # type: ignore[arg-type]  # settings of each kind
    optimizer.step()
    return optimizer, weights


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (torch.optim.AdamW, "exp_avg", "exp_avg_sq"),
        (torch.optim.RMSprop, None, "square_avg"),
        (torch.optim.Adagrad, None, "sum"),
        (torch.optim.SGD, "momentum_buffer", None),
    ],
)
def test_moments_are_found_under_each_optimizers_names(
    kind: type[torch.optim.Optimizer], first: str | None, second: str | None
) -> None:
    more = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    optimizer, weights = stepped(kind, lr=0.1, **more)
    found = moments_of(optimizer, weights)
    state = optimizer.state[weights[0]]
    assert found.first[0] is (state[first] if first else None)
    assert found.second[0] is (state[second] if second else None)
    # The second weight has no gradient, and most optimizers remember nothing of it.
    if kind is torch.optim.AdamW:
        assert found.first[1] is None
        assert math.isnan(found.ages[1])
        assert found.ages[0] == 1


def test_thresholds_follow_each_groups_epsilon_and_age() -> None:
    weights = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    groups = [{"params": weights[:1], "eps": 1e-4}, {"params": weights[1:], "eps": 1e-8}]
    optimizer = torch.optim.Adam(groups, lr=0.1, betas=(0.9, 0.99))
    for weight in weights:
        weight.grad = torch.ones(3)
    optimizer.step()
    weights[1].grad = None
    optimizer.step()
    expected = [1e-4 * math.sqrt(1 - 0.99**2), 1e-8 * math.sqrt(1 - 0.99)]
    assert moments_of(optimizer, weights).thresholds == pytest.approx(expected)


def test_an_epsilon_that_is_not_one_number_is_no_threshold() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight])
    optimizer.param_groups[0]["eps"] = (1e-30, 1e-3)
    assert math.isnan(moments_of(optimizer, [weight]).thresholds[0])
