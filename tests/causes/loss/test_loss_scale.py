"""The loss times a number."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import (
    BACKWARD,
    LOSS,
    alternating,
    check_refuted,
    check_trial,
    check_untested,
    seen,
    steps,
)

from lossleuth.causes.loss.loss_scale import LEAST, judge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence


def followed(*scales: float | None, cosine: float = 1.0, updates: Any = ({},)) -> dict[str, Any]:
    runs = [{"scale": s, "cosine": cosine, "count": 100} for s in scales]
    return {"logit_gradients": runs, "updates": updates}


@pytest.mark.parametrize(
    ("scales", "inverse"), [((500.0,), 0.002), ((1.0, 1.0, 1.0, 1.0), 0.25), ((0.01,), 100.0)]
)
def test_a_factor_is_suspected_until_it_was_divided_by(
    scales: tuple[float, ...], inverse: float
) -> None:
    cure = Change.of("scale_gradient", factor=inverse)
    check_trial(judge, seen(**followed(*scales)), [cure], LOSS, least=LEAST)


def test_the_backward_pass_is_named_where_the_loss_has_no_line() -> None:
    assert judge(alternating(followed(500.0))).where == BACKWARD


@pytest.mark.parametrize("scales", [(1.0,), (0.5, 0.5), (2.0,), (0.5,)])
def test_a_mean_and_a_weight_of_a_term_are_no_fault(scales: tuple[float, ...]) -> None:
    check_refuted(judge(seen(**followed(*scales))), "where 1 is expected")


def test_the_factor_of_a_gradient_scaler_is_taken_off() -> None:
    evidence = seen(steps=steps(4, loss_scale=65536.0), **followed(65536.0))
    check_refuted(judge(evidence), "1.000")


@pytest.mark.parametrize(
    "evidence",
    [Evidence(), seen(**followed(5.0, cosine=0.3)), seen(**followed(None)), seen(updates=[{}])],
    ids=["nothing", "another direction", "unknown", "no backward pass"],
)
def test_another_direction_than_cross_entropy_has_no_factor(evidence: Evidence) -> None:
    check_untested(judge(evidence), "does not point")


def test_backward_passes_without_an_update_are_not_a_step() -> None:
    check_untested(judge(seen(**followed(0.1, updates=[]))))


def test_the_scale_of_each_step_is_its_own() -> None:
    recorded = steps(4, loss_scale=[1.0, 64.0, 32.0, 16.0])
    windows = [{"step": s["step"], **followed(s["loss_scale"])} for s in recorded]
    check_refuted(judge(seen(steps=recorded, windows=windows)), "1.000")
