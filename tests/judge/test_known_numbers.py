"""Numbers that mean something."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from lossleuth.judge.known_numbers import recognised
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Ending, Floors, Step


def steps(losses: list[float], **scalars: Any) -> list[Step]:
    return [Step(i, loss=loss, **scalars) for i, loss in enumerate(losses)]


def said(losses: list[float], floors: Floors | None = None, **scalars: Any) -> str:
    found = recognised(Evidence(steps=steps(losses, **scalars), floors=floors or Floors()))
    return " ".join(found)


def test_equal_chances_are_recognised_to_four_decimals() -> None:
    uniform = math.log(50)
    assert "at the first step: ln 50" in said([uniform + 4e-5, 3.0, 2.0], classes=50)
    assert "in all of 3 steps: ln 50" in said([uniform] * 3, classes=50)
    assert said([uniform + 1e-3, 3.0], classes=50) == ""
    assert said([uniform]) == ""


def test_a_loss_that_rests_on_an_entropy_of_the_data_is_named() -> None:
    assert "entropy of single tokens" in said([2.5] * 30, Floors(2.51, 1.0))
    assert "entropy of pairs" in said([1.01] * 30, Floors(2.51, 1.0))
    assert "entropy of single tokens" in said([2.5] * 30, unigram=2.49)
    assert said([2.0] * 30, Floors(2.51, 1.0)) == ""
    # A short run has come to no rest.
    assert said([2.5] * 5, Floors(2.5)) == ""


def test_a_rate_of_0_is_counted() -> None:
    assert said([1.0, 1.0], lr=0.0) == "The learning rate is exactly 0 in 2 of 2 steps."
    assert said([1.0], lr=1e-12) == ""


def test_evaluations_that_never_change_are_noticed() -> None:
    same = said([3.0, 2.0, 1.0], reads=[[4.25, "eval.py:9"]])
    assert same.startswith("The number read at eval.py:9 is 4.25 each of 3 times")
    assert said([3.0, 2.0], reads=[[4.25, "eval.py:9"]]) == ""


def test_a_log_that_shows_the_sum_of_micro_batches_is_explained() -> None:
    rows = [
        Step(i, loss=loss, backwards=4, reads=[(4 * loss, "train.py:7")])
        for i, loss in enumerate((3.0, 2.5, 2.0))
    ]
    (sentence,) = recognised(Evidence(steps=rows))
    assert sentence.startswith("The number read at train.py:7 is 4 times the loss")
    rows[1] = replace(rows[1], reads=[(9.0, "train.py:7")])
    assert recognised(Evidence(steps=rows)) == []
    assert recognised(Evidence(steps=[replace(row, backwards=1) for row in rows])) == []


def test_what_is_no_number_says_nothing() -> None:
    rows = [Step(0, loss=math.nan, reads=[(math.nan, "x:1"), (None, "x:2")])] * 4
    assert recognised(Evidence(steps=rows)) == []
    assert recognised(Evidence()) == []


def test_an_end_that_a_user_would_want_to_know_of_is_told() -> None:
    told = recognised(Evidence(ending=Ending(how="exception", error="ValueError: 7")))
    assert told == ["The script itself ended with ValueError: 7."]
    assert recognised(Evidence(ending=Ending(how="sys.exit", code=3))) == [
        "The script itself ended by sys.exit(3)."
    ]
    assert recognised(Evidence(ending=Ending(how="sys.exit", code=0))) == []
