"""Constant outputs without a gradient."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from evidence import OPTIMIZER, alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.initialisation.dead_network import CAUSE, judge
from lossleuth.findings.loss import TrueLoss
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where
from lossleuth.types.observed import FoundIn, Origins, WeightOrigins


def logits(spread: float, gradient: float | None = 0.0) -> TrueLoss:
    return TrueLoss(math.log(96), 512, 96, logits_std=spread, gradient=gradient)


def test_equal_logits_without_a_gradient_are_proven() -> None:
    judgement = judge(seen(logits(0.0)))
    check_proven(judgement, OPTIMIZER, "ln 96", "4.5643", "3 recorded steps")
    assert judgement.cure == Change.of("redraw_weights")


def test_the_file_that_the_weights_came_from_is_named() -> None:
    origins = Origins(weights=WeightOrigins([FoundIn("start.pt")]))
    check_proven(judge(replace(seen(logits(0.0)), origins=origins)), Where("start.pt"))


def test_a_zero_output_layer_alone_gets_a_gradient_and_is_no_fault() -> None:
    check_refuted(judge(seen(logits(0.0, gradient=0.3))), "0.3")


@pytest.mark.parametrize(
    "evidence",
    [seen(logits(0.6, None)), alternating([logits(0.0)], [logits(0.6, None)])],
    ids=["alive", "alive in the end"],
)
def test_logits_that_differ_are_alive(evidence: Evidence) -> None:
    check_refuted(judge(evidence), "0.6")


def test_without_logits_or_their_gradient_it_is_untested() -> None:
    check_untested(CAUSE.judged(Evidence()), "no step was recorded")
    unknown = TrueLoss(None, 0, None, logits_std=None, untested="no targets")
    check_untested(CAUSE.judged(seen(unknown)), "no targets")
    check_untested(CAUSE.judged(seen(logits(0.0, gradient=None))), "gradient is not known")
    check_untested(CAUSE.judged(seen(logits(0.0, gradient=math.nan))), "gradient is not known")


def test_a_gradient_on_one_step_is_enough_to_live() -> None:
    check_refuted(judge(alternating([logits(0.0, 0.0)], [logits(0.0, 0.2)])), "0.2")
