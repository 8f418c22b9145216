"""What an error of the logits' gradient does to an update."""

from __future__ import annotations

import math

import pytest
import torch

from lossleuth.labs.precision.step import (
    MAX_NUMBERS,
    Step,
    drawn_targets,
    most_rows,
    shift_of_update,
)


def step(**parts: object) -> Step:
    whole = {
        "source": "test",
        "logits_NV": torch.zeros(4, 3),
        "targets_N": torch.tensor([0, 1, 2, 0]),
        "half_N": torch.tensor([True, False, True, False]),
    }
    return Step(**whole | parts)  # type: ignore[arg-type]  # parts are named by the test


def test_errors_that_cancel_in_what_is_moved_do_not_count() -> None:
    true = torch.ones(4, 3).double()
    against = torch.tensor([1.0, -1.0, 1.0, -1.0]).double()[:, None]
    assert shift_of_update(step(), true, true + against) == 0
    assert shift_of_update(step(), true, true + 0.25) == pytest.approx(0.25, rel=1e-14)


def test_an_error_far_below_the_gradient_is_not_lost() -> None:
    true = torch.full((4, 3), 1 / 3).double()
    found = shift_of_update(step(), true, true * (1 + 2.0**-40))
    # The difference itself is rounded to float64, no more.
    assert found == pytest.approx(2.0**-40, rel=2**-10)


def test_the_update_is_the_optimizers() -> None:
    true = torch.ones(4, 3).double()
    assert shift_of_update(step(update=torch.sign), true, true * 7) == 0


def test_no_update_has_no_share() -> None:
    assert math.isnan(
        shift_of_update(step(), torch.zeros(4, 3).double(), torch.ones(4, 3).double())
    )


def test_rows_are_as_many_as_can_be_looked_at() -> None:
    assert most_rows(34, 100) == 100
    assert most_rows(1 << 18, 100) == MAX_NUMBERS >> 18
    assert most_rows(10 * MAX_NUMBERS, 100) == 2


def test_targets_are_drawn_as_the_logits_say() -> None:
    logits = torch.tensor([[0.0, math.log(3.0), -math.inf]]).repeat(4000, 1)
    drawn = drawn_targets(logits, seed=0)
    assert torch.equal(drawn, drawn_targets(logits, seed=0))
    share = (drawn == 1).double().mean().item()
    # Four standard errors of a share of 3/4 among 4 000.
    assert abs(share - 0.75) < 4 * math.sqrt(0.75 * 0.25 / 4000) and (drawn == 2).sum() == 0
