"""Models in which no token reaches another position."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evidence import check_proven, check_refuted, check_untested, steps

from lossleuth.causes.model.past_ignored import CAUSE, judge
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Leaks
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import Floors
from lossleuth.types.yardstick import Yardstick

LINE = Where("model.py", 12)


def reached(*distances: int | None, mixes: bool = True, length: int = 40) -> Evidence:
    """A run in which a token reached so far, on each recorded step."""
    known = Leaks(0.0, 0.0, 1.0, 0.0, length=length, past_places=("model.py:12",), mixes=mixes)
    recorded = [
        RecordedStep(step, (replace(known, reach=reach),)) for step, reach in enumerate(distances)
    ]
    floors = Floors(unigram=3.0, bigram=2.4)
    seen = steps(200, unigram=3.0)
    return Evidence(steps=seen, recorded=recorded, floors=floors)


def compared(evidence: Evidence, loss: float, steps: int = 200) -> Evidence:
    """The same, with a reference that reaches a loss."""
    made = Yardstick(steps=range(steps), losses=[4.0] * (steps - 40) + [loss] * 40)
    return replace(evidence, yardstick=made)


def test_it_is_proven_where_a_reference_does_what_no_model_of_pairs_can() -> None:
    judgement = judge(compared(reached(0, 0), 1.9))
    check_proven(judgement, LINE, "all of 2 recorded steps", "none of the 39", "1.90", "2.40")


@pytest.mark.parametrize(
    "evidence",
    [
        compared(reached(0, 0), 2.35),
        compared(reached(0, 0), 1.9, steps=45),
        replace(reached(0, 0), yardstick=Yardstick("its targets are not the next tokens")),
        replace(compared(reached(0, 0), 1.9), floors=Floors(unigram=2.5, bigram=2.4)),
        replace(compared(reached(0, 0), 1.9), floors=Floors(unigram=3.0)),
    ],
    ids=["no better than pairs", "a short reference", "none", "pads are read", "no pairs"],
)
def test_it_is_suspected_where_what_it_costs_is_not_known(evidence: Evidence) -> None:
    judgement = judge(evidence)
    assert judgement.status is Status.SUSPECTED
    assert judgement.where == LINE


def test_before_anything_is_compared_it_is_open_and_the_run_not_healthy() -> None:
    check_untested(judge(reached(0, 0)), "all of 2 recorded steps", "was not compared")
    assert CAUSE.is_core(reached(0, 0))


def test_models_that_look_back_are_sound() -> None:
    check_refuted(judge(compared(reached(0, 7), 1.0)), "a position 7 later")
    assert not CAUSE.is_core(reached(0, 7))


def test_a_model_of_pairs_is_not_blamed() -> None:
    check_untested(judge(compared(reached(0, 0, mixes=False), 1.0)), "0 operations in it")
    assert not CAUSE.is_core(reached(0, 0, mixes=False))


@pytest.mark.parametrize(
    "evidence", [Evidence(), reached(None), reached(0, length=2)], ids=["none", "unknown", "short"]
)
def test_where_nothing_could_be_looked_back_at_it_is_untested(evidence: Evidence) -> None:
    check_untested(CAUSE.judged(evidence), "")


def test_a_model_that_does_better_than_pairs_knows_something_else() -> None:
    """A decoder without a past of its own may see the source."""
    blind = compared(reached(0, 0), 1.9)
    knowing = [
        replace(step, findings=(*step.findings, TrueLoss(1.2, 96, 96, 1.0)))
        for step in blind.recorded
    ]
    check_untested(judge(replace(blind, recorded=knowing)), "1.20", "knows something else")
