"""Optimizers of other tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import OPTIMIZER, UPDATE, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.optimizer.stale_parameters import CAUSE, CURE, judge
from lossleuth.findings.update import Coverage, Uncovered
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import RunSettings

WEIGHT = Uncovered("head.weight", 64, "model.py", 9, "head", gradient=1.0)


def covered(*missing: Uncovered, unused: int = 0, unused_match_missing: bool = False) -> Evidence:
    found = Coverage(
        missing=missing,
        missing_share=0.8 if missing else 0.0,
        frozen=(),
        unused=unused,
        held=25,
        unused_match_missing=unused_match_missing,
    )
    return seen(found)


@pytest.mark.parametrize("given", [{"unused": 25, "unused_match_missing": True}, {"unused": 4}])
def test_other_copies_than_those_in_use_are_suspected_until_these_are_trained(given: Any) -> None:
    fault = covered(WEIGHT, **given)
    check_trial(judge, fault, [CURE], OPTIMIZER)
    because = judge(fault).because
    assert "80%" in because and "25 tensors" in because and f"{given['unused']} of them" in because


def test_the_update_is_named_where_no_line_made_the_optimizer() -> None:
    assert judge(replace(covered(WEIGHT, unused=4), settings=RunSettings())).where == UPDATE


@pytest.mark.parametrize(
    "evidence",
    [covered(), covered(WEIGHT), covered(unused=4)],
    ids=["all held", "only missing: see unregistered_parameters", "spare heads"],
)
def test_what_is_held_is_what_is_used(evidence: Evidence) -> None:
    check_refuted(judge(evidence), "25 tensors")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [(Evidence(), "no step was recorded"), (seen(), "coverage could not be measured")],
)
def test_without_coverage_it_is_untested(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)
