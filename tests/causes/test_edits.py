"""Edits of single expressions."""

from __future__ import annotations

import ast

import pytest

from lossleuth.causes.edits import (
    causal,
    minimised,
    rescaled_rate,
    without_cut,
    without_softmax,
)
from lossleuth.types.cause import Fix
from lossleuth.types.change import Change, Effect
from lossleuth.types.judgement import Judgement, Status

FAULT = Judgement(Status.PROVEN, "1")


def edited(fix: Fix, source: str, judgement: Judgement = FAULT) -> list[tuple[str, str]]:
    """What a fix would replace in an expression, and by what."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr)]
    edits = [edit for node in nodes for edit in fix(node, judgement)]
    return [(ast.unparse(node), text) for node, text in edits]


def helped_by(change: Change) -> Judgement:
    effect = Effect(change, 1.0, 0.1, 3, 26, 3.0, 2.0, 4.0)
    return Judgement(Status.PROVEN, "1", harm=effect)


@pytest.mark.parametrize(
    ("fix", "source", "old", "new"),
    [
        (without_cut, "self.embed(tokens).detach()", None, "self.embed(tokens)"),
        (without_cut, "block(h.data)", "h.data", "h"),
        (without_softmax, "F.softmax(logits, dim=-1)", None, "logits"),
        (without_softmax, "torch.softmax(logits, -1)", None, "logits"),
        (without_softmax, "softmax(a + b, 1)", None, "a + b"),
        (without_softmax, "F.cross_entropy(z.softmax(-1), t)", "z.softmax(-1)", "z"),
        (without_softmax, "z.softmax(dim=-1)", None, "z"),
        (causal, "sdpa(q, k, v, is_causal=False)", "False", "True"),
        (minimised, "Adam(p, maximize=True)", "True", "False"),
    ],
)
def test_an_expression_that_is_understood_is_replaced(
    fix: Fix, source: str, old: str | None, new: str
) -> None:
    assert edited(fix, source) == [(old or source, new)]


@pytest.mark.parametrize(
    ("fix", "source"),
    [
        (without_cut, "a"),
        (without_cut, "x.detach(1)"),
        (without_cut, "x.data = y"),
        (without_softmax, "log_softmax(x)"),
        (without_softmax, "softmax()"),
        (without_softmax, "x.softmax(-1, dtype=d)"),
        (causal, "sdpa(q, k, v, is_causal=causal)"),
        (causal, "sdpa(q, k, v, is_causal=True)"),
        (causal, "sdpa(q, k, v, is_causal=0)"),
        (minimised, "Adam(p, maximize=False)"),
        (minimised, "maximize"),
    ],
)
def test_what_is_not_exactly_known_is_left_alone(fix: Fix, source: str) -> None:
    assert edited(fix, source) == []


def test_all_candidates_are_given_for_the_caller_to_choose() -> None:
    assert len(edited(without_cut, "a.detach() + b.detach()")) == 2


@pytest.mark.parametrize(("factor", "rate"), [(0.1, "0.03"), (10, "3")])
def test_a_rate_is_scaled_by_the_factor_that_helped(factor: float, rate: str) -> None:
    judgement = helped_by(Change.of("scale_lr", factor=factor))
    assert edited(rescaled_rate, "Adam(p, lr=0.3)", judgement) == [("0.3", rate)]


@pytest.mark.parametrize(
    "judgement",
    [
        FAULT,
        helped_by(Change.of("scale_gradient", factor=0.1)),
        helped_by(Change.of("scale_lr")),
        helped_by(Change.of("scale_lr", factor=0.0)),
        helped_by(Change.of("scale_lr", factor="much")),
    ],
    ids=["no trial", "another change", "no factor", "no rate", "no number"],
)
def test_a_rate_stays_without_a_factor_that_helped(judgement: Judgement) -> None:
    assert edited(rescaled_rate, "Adam(p, lr=0.3)", judgement) == []


@pytest.mark.parametrize("source", ["Adam(p, lr=args.lr)", "Adam(p, 0.3)", "lr"])
def test_a_rate_that_is_not_written_on_the_line_stays(source: str) -> None:
    assert edited(rescaled_rate, source, helped_by(Change.of("scale_lr", factor=0.1))) == []
