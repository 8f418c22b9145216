"""Supervised padding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evidence import LOSS, alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.data.pad_in_loss import CAUSE, judge
from lossleuth.findings.data import Padding
from lossleuth.types.evidence import Evidence


def padded(pads: int, token: int | None = 0) -> Padding:
    found = 0.0 if token is None else 0.5
    return Padding(token, share=found, supervised_pads=pads, supervised=400)


def test_supervised_padding_is_proven() -> None:
    judgement = judge(seen(padded(100, token=7)))
    check_proven(judgement, LOSS, "25%", "token 7", "0 %")
    assert judgement.wrongness is not None and judgement.wrongness.value == 0.25


@pytest.mark.parametrize("pads", [0, 19])
def test_padding_that_hardly_counts_is_no_fault(pads: int) -> None:
    check_refuted(judge(seen(padded(pads))), "of the supervised targets are padding")


def test_rows_without_padding_are_sound() -> None:
    check_refuted(judge(seen(padded(0, token=None))), "3 recorded steps")


def test_a_text_that_once_ends_in_a_run_of_one_token_is_not_blamed() -> None:
    check_refuted(judge(alternating([padded(100)], [padded(0)])))


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "no step was recorded"),
        (seen(replace(padded(100), untested="no rows")), "no rows"),
        (seen(), "padding could not be measured"),
    ],
)
def test_without_rows_it_is_untested(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)
