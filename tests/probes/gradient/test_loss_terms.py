"""The terms of a loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from steps import recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.gradient.gradient_truth import replayed_gradients
from lossleuth.probes.gradient.loss_terms import Term, gradient_without, terms
from lossleuth.tape.replay.substitutes import CannotReplay


def entropy(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def spread(logits: Tensor) -> Tensor:
    return (torch.logsumexp(logits, -1) ** 2).mean()


def terms_of(combine: Callable[[Tensor, Tensor], Tensor]) -> list[Term]:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        logits = model(tokens[:, :-1])
        return combine(entropy(logits, tokens), spread(logits))

    window = recorded_step(loss)
    return terms(window, window.backwards[0])


def in_place(a: Tensor, b: Tensor) -> Tensor:
    total = a * 1.0
    total += 0.3 * b
    return total


@pytest.mark.parametrize(
    ("combine", "coefficients"),
    [
        (lambda a, b: a + 0.3 * b, (1.0, 0.3)),
        (lambda a, b: (a - b / 4) * 2, (2.0, -0.5)),
        (lambda a, b: torch.add(-b, a, alpha=3), (3.0, -1.0)),
        (lambda a, b: torch.stack([a, b]).mean(), (0.5, 0.5)),
        (lambda a, b: sum([a, torch.tensor(0.25) * b, torch.tensor(7.0)]), (1.0, 0.25)),
        (in_place, (1.0, 0.3)),
    ],
)
def test_a_sum_is_taken_apart(
    combine: Callable[[Tensor, Tensor], Tensor], coefficients: tuple[float, float]
) -> None:
    found = terms_of(combine)
    first, second = sorted(found, key=lambda t: t.line or 0)
    assert (first.coefficient, second.coefficient) == pytest.approx(coefficients)
    line = inspect.getsourcelines(entropy)[1]
    assert abs((first.line or 0) - line) <= 2
    assert abs((second.line or 0) - inspect.getsourcelines(spread)[1]) <= 2
    assert sum(term.steering or 0.0 for term in found) == pytest.approx(1)
    assert sum(term.norm_share or 0.0 for term in found) == pytest.approx(1)
    assert all(term.untested is None for term in found)
    assert first.value == pytest.approx(3.2, abs=0.4)


def test_the_term_that_steers_stands_first() -> None:
    found = terms_of(lambda a, b: 1e-4 * a + b)
    assert found[0].coefficient == 1.0
    assert found[0].cosine == pytest.approx(1, abs=1e-3)
    assert (found[0].steering or 0) > 0.99


def test_a_product_of_two_losses_is_one_term() -> None:
    (only,) = terms_of(lambda a, b: a * b)
    assert only.steering == 1.0
    assert only.operation == "mul"


def test_a_term_without_gradient_is_none() -> None:
    (only,) = terms_of(lambda a, b: a + b.detach())
    assert only.coefficient == 1.0
    assert (only.line or 0) < inspect.getsourcelines(spread)[1]


def test_terms_know_their_place_in_the_sum() -> None:
    found = terms_of(lambda a, b: 1e-4 * b + a + 3 * b.square())
    assert [t.coefficient for t in sorted(found, key=lambda t: t.index)] == [1e-4, 1.0, 3.0]
    assert [t.index for t in found] != [0, 1, 2]


def both(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1])
    return (entropy(logits, tokens) + 4 * spread(logits)) / 2


def test_the_gradient_without_a_term_is_that_of_the_others() -> None:
    window = recorded_step(both)
    run = window.backwards[0]
    whole = replayed_gradients(window.tape, run, wide=True)
    without = [gradient_without(window, run, index) for index in (0, 1)]
    for number, gradient in whole.items():
        parts = [found[number] for found in without if found is not None]
        assert gradient is not None
        assert sum(p for p in parts if p is not None) == pytest.approx(gradient, abs=1e-12)
    assert gradient_without(window, run, 2) is None
    assert gradient_without(window, run, -1) is None


def test_the_only_term_is_not_left_out() -> None:
    window = recorded_step(lambda model, tokens: spread(model(tokens)))
    assert gradient_without(window, window.backwards[0], 0) is None


def test_terms_of_higher_order_are_not_left_out() -> None:
    window = recorded_step(both)
    window.backwards[0].creates_graph = True
    with pytest.raises(CannotReplay, match="higher order"):
        gradient_without(window, window.backwards[0], 1)
