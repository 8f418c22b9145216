"""Gradients that end on their way."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import alternating, check_refuted, check_trial, check_untested, seen, tried

from lossleuth.causes.gradient.graph_cut import CAUSE, CURE, judge
from lossleuth.findings.gradient import Cut, GraphCuts
from lossleuth.judge.judging import drop_untried
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where

LINE = Cut("model.py", 12, "detach")
NOWHERE = Cut(None, None, "alias")


def cut(lost: float | None, **given: Any) -> GraphCuts:
    nothing: dict[str, Any] = {"starved": (), "changed": (), "places": ()}
    return GraphCuts(lost, **{**nothing, **given})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"starved": ("tok.weight", "pos.weight")}, "2 trained parameters get no gradient at all"),
        ({"changed": ("tok.weight",)}, "1 trained parameters get only a part"),
    ],
)
def test_a_cut_is_suspected_at_its_line_until_opened(given: Any, words: str) -> None:
    fault = seen(cut(0.6, places=(NOWHERE, LINE), **given))
    check_trial(judge, fault, [CURE], Where("model.py", 12))
    assert words in judge(fault).because
    assert "60%" in judge(fault).because and "detach" in judge(fault).because


def test_a_cut_by_design_is_told_and_no_wrongness_until_a_trial_gains() -> None:
    memory = seen(cut(0.16, changed=("gru.weight",), places=(LINE,)))
    assert judge(memory).wrongness is None
    # What learns and was not tried is not suspected; a first pair of runs that gains is.
    judgements = {"graph_cut": judge(memory)}
    assert drop_untried(judgements)["graph_cut"].status is Status.UNTESTED
    gains = {"graph_cut": judge(tried(memory, CURE, 0.5, seeds=1, error=0.0))}
    assert drop_untried(gains)["graph_cut"].status is Status.SUSPECTED
    starved = {"graph_cut": judge(seen(cut(0.16, starved=("tok.weight",), places=(LINE,))))}
    assert drop_untried(starved)["graph_cut"].status is Status.SUSPECTED


def test_a_cut_without_a_line_has_no_place() -> None:
    check_trial(judge, seen(cut(0.6, changed=("a",), places=(NOWHERE,))), [CURE], None)


@pytest.mark.parametrize(
    "found",
    [cut(0.0), cut(1e-5, changed=("tok.weight",))],
    ids=["no cut", "a cut that costs nothing"],
)
def test_cuts_that_take_nothing_from_what_is_trained_are_sound(found: GraphCuts) -> None:
    check_refuted(judge(seen(found)), "of the gradient")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "no step was recorded"),
        (seen(cut(None, untested="a random operation")), "a random operation"),
        (seen(cut(None)), "no finite gradient"),
    ],
    ids=["nothing", "no replay", "no number"],
)
def test_without_a_replay_it_is_untested_with_the_reason(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def test_the_backward_pass_that_loses_most_is_named() -> None:
    small, large = (cut(share, changed=("a",), places=(LINE,)) for share in (0.1, 0.6))
    assert "60%" in judge(alternating([small], [large])).because
    check_refuted(judge(alternating([cut(0.0)], [cut(2e-5, changed=("a",))])), "2.0e-05")
