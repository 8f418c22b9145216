"""The claims of case kahan: refuted as they stand, and standing where they are made true."""

from __future__ import annotations

import pytest
import torch

from lossleuth.labs.cases.kahan import padded_block_sum
from lossleuth.labs.precision import claims
from lossleuth.labs.precision.claims import SIZES, Claim, claims_of_kahan, dropped, kahan_step
from lossleuth.labs.precision.step import Step


@pytest.fixture(scope="module")
def step() -> Step:
    return kahan_step(2)


@pytest.fixture(scope="module")
def found(step: Step) -> list[Claim]:
    return claims_of_kahan(step)


def test_every_claim_is_refuted(found: list[Claim]) -> None:
    assert [claim.verdict for claim in found] == ["refuted"] * 5


def test_the_measured_numbers_are_those_of_the_case(found: list[Claim]) -> None:
    percents, cure, cost, differences, harm = (claim.measured for claim in found)
    assert "e-07" in percents and "at V = 50,000" in percents
    assert "2 of 34, 36 of 100, 488 of 1000, 0 of 1024" in cure
    assert "additions for 1" in cost or "times a plain sum" in cost
    assert "at 1e-2" in differences
    assert "irrelevant below the step's own noise" in harm


def test_the_step_is_of_the_case(step: Step) -> None:
    assert step.logits_NV.shape == (256, 34) and step.half_N.sum() == 128


def test_a_sum_that_does_lose_percents_lets_the_claim_stand(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: sums that are 3 % short, as the case believed of float32."""
    from lossleuth.labs.precision import effects

    real = effects.row_sums
    monkeypatch.setattr(
        effects, "row_sums", lambda x, m: real(x, m) * (0.97 if m == "naive" else 1)
    )
    told = claims_of_kahan(step)
    assert told[0].holds and "3.0e-02" in told[0].measured
    assert told[4].holds and "matters" in told[4].measured
    assert not told[3].holds


def test_a_reduction_that_drops_nothing_lets_the_cure_stand(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "block_sum", padded_block_sum)
    assert claims_of_kahan(step)[1].holds
    assert [dropped(size) for size in SIZES] == [0, 0, 0, 0]


def test_without_the_library_the_cost_is_told_by_counting(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "cost_of_sum", lambda *_: None)
    cost = claims._costs_nothing(torch.ones(1, 8))
    assert not cost.holds and "4 dependent additions for 1" in cost.measured
