"""Rules that are told from values, whatever things are called."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lossleuth.probes.update.update_rules import Facts, best_rule, moments

SETTINGS = {"speed": 3e-3, "remember": (0.8, 0.95), "tiny": 1e-7, "shrink": 0.02, "nesterov": False}


def tensor(seed: int) -> Tensor:
    return torch.randn(20, 7, generator=torch.Generator().manual_seed(seed))


def adam(*, corrected: bool = True, decoupled: bool = True, under: bool = False) -> Facts:
    """The fifth step of an Adam whose memories have misleading names."""
    weight, gradient, rate, decay = tensor(0), tensor(1), 3e-3, 0.02
    first, second = 0.1 * tensor(2), 0.01 * tensor(3) ** 2
    g = gradient if decoupled else gradient + decay * weight
    m, v = 0.8 * first + 0.2 * g, 0.95 * second + 0.05 * g * g
    a, b = (m / (1 - 0.8**5), v / (1 - 0.95**5)) if corrected else (m, v)
    step = -rate * a / ((b + 1e-7).sqrt() if under else b.sqrt() + 1e-7)
    if decoupled:
        step = step - rate * decay * weight
    # What has the shape of a weight and is neither, and a name that says the opposite.
    before = {"v": first, "m": second, "other": tensor(4), "clock": 4}
    after = {"v": m, "m": v, "other": tensor(5), "clock": 5}
    return Facts(weight, gradient, step, before, after, SETTINGS)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "AdamW"),
        ({"decoupled": False}, "Adam"),
        ({"corrected": False}, "AdamW without bias correction"),
        ({"corrected": False, "decoupled": False}, "Adam without bias correction"),
    ],
)
def test_adam_is_known_by_what_it_does(options: dict[str, bool], name: str) -> None:
    facts = adam(**options)
    rule = best_rule(facts)
    assert rule is not None
    assert rule.name == name
    assert rule.rate == 3e-3
    assert rule.decay == 0.02
    assert torch.allclose(rule.move(facts), facts.moved.double(), rtol=1e-4, atol=1e-8)


def test_a_moment_is_known_by_how_it_changed() -> None:
    facts = adam().some()
    (first,) = moments(facts, facts.gradient.double())
    assert first.name == "v"
    assert first.kept == pytest.approx(0.8, abs=1e-4)
    assert first.added == pytest.approx(0.2, abs=1e-4)
    (second,) = moments(facts, facts.gradient.double() ** 2)
    assert second.name == "m"
    assert second.kept == pytest.approx(0.95, abs=1e-4)
    assert moments(facts, facts.weight.double()) == []


def test_the_first_step_of_an_adam_has_age_one() -> None:
    gradient, weight = tensor(1), tensor(0)
    after = {"x": 0.1 * gradient, "y": 0.001 * gradient**2}
    move = -1e-2 * gradient / (gradient.abs() + 1e-8)
    rule = best_rule(Facts(weight, gradient, move, {}, after, {"lr": 1e-2}))
    assert rule is not None
    assert (rule.name, rule.age) == ("Adam", 1.0)


@pytest.mark.parametrize(("decay", "name"), [(0.0, "SGD"), (0.1, "SGD")])
def test_plain_descent(decay: float, name: str) -> None:
    move = -0.5 * (tensor(1) + decay * tensor(0))
    rule = best_rule(Facts(tensor(0), tensor(1), move, {}, {}, {"a": 0.5, "b": decay}))
    assert rule is not None
    assert (rule.name, rule.rate, rule.decay) == (name, 0.5, decay)


def test_momentum() -> None:
    old, gradient = tensor(2), tensor(1)
    new = 0.9 * old + gradient
    facts = Facts(tensor(0), gradient, -0.1 * new, {"z": old}, {"z": new}, {"lr": 0.1})
    rule = best_rule(facts)
    assert rule is not None
    assert rule.name == "SGD with momentum"
    assert torch.allclose(rule.move(facts), facts.moved.double())


def test_without_a_number_there_is_no_rule() -> None:
    assert best_rule(Facts(tensor(0), tensor(1), tensor(2), {}, {}, {"x": True})) is None


def test_a_rule_that_goes_by_signs() -> None:
    old, gradient, weight = tensor(2), tensor(1), tensor(0)
    move = -0.01 * torch.sign(0.9 * old + 0.1 * gradient) - 0.01 * 0.2 * weight
    after = {"x": 0.99 * old + 0.01 * gradient}
    settings = {"lr": 0.01, "b": (0.9, 0.99), "wd": 0.2}
    facts = Facts(weight, gradient, move, {"x": old}, after, settings)
    rule = best_rule(facts)
    assert rule is not None
    assert (rule.name, rule.sign_of, rule.decay) == ("sign descent", ("x", 0.9), 0.2)
    assert torch.allclose(rule.move(facts), move.double(), atol=1e-8)
