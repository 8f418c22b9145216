"""The reference model: invariants that hold exactly."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from small import CONTEXT, VOCABULARY, small_loader, small_model

from lossleuth.reference.train.loss import mean_loss
from lossleuth.reference.train.model import KeyValueCache, LanguageModel, ModelShape

SHAPES: list[dict[str, Any]] = [
    {"positions": positions, "tied": tied}
    for positions in ("learned", "rotary")
    for tied in (True, False)
]
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def tokens(rows: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, VOCABULARY, (rows, CONTEXT), generator=generator)


@each_shape
def test_a_later_token_does_not_move_an_earlier_logit_at_all(shape: dict[str, Any]) -> None:
    model, before = small_model(**shape).eval(), tokens()
    logits = model(before)
    for t in (1, 7, CONTEXT - 1):
        after = before.clone()
        after[:, t] = (after[:, t] + 1) % VOCABULARY
        moved = model(after) - logits
        assert moved[:, :t].eq(0).all()
        assert moved[:, t].ne(0).any()


@each_shape
def test_a_row_does_not_move_another_row_at_all(shape: dict[str, Any]) -> None:
    model, before = small_model(**shape).eval(), tokens()
    after = before.clone()
    after[1] = (after[1] + 1) % VOCABULARY
    moved = model(after) - model(before)
    assert moved[[0, 2]].eq(0).all()
    assert moved[1].ne(0).any()


@each_shape
def test_the_order_of_the_past_matters(shape: dict[str, Any]) -> None:
    model = small_model(**shape).double().eval()
    # At the tiny initial weights attention is nearly flat; larger ones make order count.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5)
    before = tokens()
    after = before.clone()
    after[:, [0, 1]] = before[:, [1, 0]]
    assert (before[:, 0] != before[:, 1]).all()
    assert (model(after) - model(before))[:, -1].abs().max() > 1e-6


@each_shape
@pytest.mark.parametrize("layers", [1, 4])
def test_the_first_loss_is_near_ln_v_at_any_depth(shape: dict[str, Any], layers: int) -> None:
    model = LanguageModel(ModelShape(500, CONTEXT, layers, heads=4, width=64, **shape))
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randint(0, 500, (2, 8, CONTEXT), generator=generator)
    assert abs(mean_loss(model(inputs), targets).item() - math.log(500)) < 0.1


@each_shape
def test_growing_prefixes_with_a_cache_give_the_logits_of_the_whole(shape: dict[str, Any]) -> None:
    model, whole = small_model(**shape).double().eval(), tokens(rows=2)
    cache = KeyValueCache()
    parts = [model(part, cache) for part in whole.split((5, 1, 1, CONTEXT - 7), dim=1)]
    assert cache.length == CONTEXT
    assert torch.allclose(torch.cat(parts, dim=1), model(whole), rtol=0, atol=1e-13)


@each_shape
def test_the_gradient_is_the_directional_derivative_to_a_millionth(shape: dict[str, Any]) -> None:
    model = small_model(**shape).double()
    batch = small_loader()(0)

    def loss() -> torch.Tensor:
        return mean_loss(model(batch.inputs_BT), batch.targets_BT)

    loss().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    generator = torch.Generator().manual_seed(0)
    directions = [
        torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in model.parameters()
    ]
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    along = sum((g * d).sum().item() for g, d in zip(gradients, directions, strict=True))

    def shifted(h: float) -> float:
        with torch.no_grad():
            for p, d in zip(model.parameters(), directions, strict=True):
                p.add_(d, alpha=h)
            value = loss().item()
            for p, d in zip(model.parameters(), directions, strict=True):
                p.sub_(d, alpha=h)
        return value

    def quotient(h: float) -> float:
        return (shifted(h) - shifted(-h)) / (2 * h)

    # One Richardson step leaves an error of order h^4.
    measured = (4 * quotient(5e-5) - quotient(1e-4)) / 3
    assert abs(along) > 1e-3
    assert abs(measured / along - 1) < 1e-6


def test_tied_weights_are_one_tensor_and_untied_are_two() -> None:
    tied, untied = small_model(tied=True), small_model(tied=False)
    assert tied.output.weight is tied.embedding.weight
    assert untied.output.weight is not untied.embedding.weight


def test_dropout_acts_in_training_only() -> None:
    model, row = small_model(dropout=0.5), tokens(rows=1)
    assert model(row).ne(model(row)).any()
    model.eval()
    assert model(row).eq(model(row)).all()


def test_text_beyond_the_context_is_refused() -> None:
    model, cache = small_model(positions="learned").eval(), KeyValueCache()
    model(tokens(rows=1), cache)
    with pytest.raises(ValueError, match=f"{CONTEXT + 1} positions do not fit"):
        model(torch.zeros(1, 1, dtype=torch.long), cache)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"positions": "sinus"}, "learned or rotary"),
        ({"heads": 3}, "do not divide"),
        ({"heads": 16}, "even head width"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        small_model(**changes)
