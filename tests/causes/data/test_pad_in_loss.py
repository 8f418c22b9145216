"""Supervised padding."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import LOSS, alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.data.pad_in_loss import judge
from lossleuth.types.evidence import Evidence


def padded(pads: int, token: int | None = 0) -> dict[str, Any]:
    return {"token": token, "supervised": 400, "supervised_pads": pads, "untested": None}


def test_supervised_padding_is_proven() -> None:
    judgement = judge(seen(padding=padded(100, token=7)))
    check_proven(judgement, LOSS, "25%", "token 7", "0 %")
    assert judgement.wrongness is not None and judgement.wrongness.value == 0.25


@pytest.mark.parametrize("pads", [0, 19])
def test_padding_that_hardly_counts_is_no_fault(pads: int) -> None:
    check_refuted(judge(seen(padding=padded(pads))), "of the supervised targets are padding")


def test_rows_without_padding_are_sound() -> None:
    check_refuted(judge(seen(padding=padded(0, token=None))), "3 recorded steps")


def test_a_text_that_once_ends_in_a_run_of_one_token_is_not_blamed() -> None:
    check_refuted(judge(alternating({"padding": padded(100)}, {"padding": padded(0)})))


@pytest.mark.parametrize("evidence", [Evidence(), seen(padding={"untested": "no rows"})])
def test_without_rows_it_is_untested(evidence: Evidence) -> None:
    check_untested(judge(evidence), "no step with rows")
