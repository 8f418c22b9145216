"""What errors are measured against, itself against exact fractions."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from lossleuth.labs.precision import reference
from lossleuth.labs.precision.reference import sums_of, truth_of


def decimal_loss(row: list[float], target: int) -> tuple[Decimal, list[Decimal]]:
    """Loss and gradient of one row with fifty digits."""
    with localcontext() as context:
        context.prec = 50
        powers = [Decimal(x).exp() for x in row]
        total = sum(powers, Decimal(0))
        gradient = [p / total - (i == target) for i, p in enumerate(powers)]
        return (total / powers[target]).ln(), gradient


@pytest.mark.parametrize("target", [0, 1, 2])
def test_the_truth_is_that_of_fifty_digits(target: int) -> None:
    row = [25.0, 0.125, -3.5]
    found = truth_of(np.array([row]), np.array([target]))
    loss, gradient = decimal_loss(row, target)
    # Half a dozen roundings, at least as fine as float64's.
    assert abs(found.loss - float(loss)) <= 8 * 2**-53 * float(loss)
    for one, other in zip(found.gradient_NV[0], gradient, strict=True):
        assert abs(float(one) - float(other)) <= 8 * 2**-53 * abs(float(other))


def test_the_gradient_is_of_the_mean_and_sums_to_nothing() -> None:
    logits = np.random.default_rng(0).normal(size=(6, 50)).astype(np.float32)
    found = truth_of(logits, np.arange(6))
    assert abs(float(found.gradient_NV.sum())) <= 300 * 2**-53
    assert np.allclose(found.softmax_NV.sum(1).astype(float), 1, rtol=0, atol=50 * 2**-53)
    off = found.softmax_NV / 6 - found.gradient_NV
    assert np.allclose(off[np.arange(6), np.arange(6)].astype(float), 1 / 6, rtol=1e-15)


@pytest.mark.parametrize("wide", [True, False])
def test_sums_lose_nothing_that_float32_could_show(
    wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wide and not reference.IS_80_BIT:
        pytest.skip("no 80-bit numbers on this machine")
    monkeypatch.setattr(reference, "IS_80_BIT", wide)
    terms = np.random.default_rng(1).random((3, 5000)).astype(np.float32)
    exact = [math.fsum(map(float, row)) for row in terms]
    assert np.abs(sums_of(terms).astype(float) / exact - 1).max() <= 2**-50


def test_a_target_that_cannot_be_costs_infinitely_much() -> None:
    assert truth_of(np.array([[0.0, -math.inf]]), np.array([1])).loss == math.inf
