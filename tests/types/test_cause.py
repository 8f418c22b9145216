"""Causes: a judge is handed what it declared, and what is missing makes it untested."""

from __future__ import annotations

import copy

from any_finding import every_kind, finding

from lossleuth.findings.data import Alignment, Padding
from lossleuth.findings.model import Leaks
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.cause import BY_HAND, Cause, Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, refuted


def judge(evidence: Evidence) -> Judgement:
    seen = [kind.__name__ for kind in (Alignment, Leaks, Padding) if evidence.all(kind)]
    return refuted(f"{len(seen)} kinds: {' '.join(seen)}")


CAUSE = Cause("never_so", Stage.DATA, "it never is", judge, needs=(Alignment,), uses=(Leaks,))


def test_its_judge_sees_what_it_declared_and_nothing_else() -> None:
    evidence = Evidence(recorded=[RecordedStep(1, every_kind(0.5))])
    assert CAUSE.judged(evidence).because == "2 kinds: Alignment Leaks"


def test_what_it_may_use_need_not_be_there() -> None:
    evidence = Evidence(recorded=[RecordedStep(1, [finding(Alignment, 0.5)])])
    assert CAUSE.judged(evidence).because == "1 kinds: Alignment"


def test_without_what_it_needs_it_is_untested_for_a_reason() -> None:
    untested = Alignment(None, {}, 0, 0, untested="no targets that a loss picks by were found")
    reasons = {
        "no step was recorded": Evidence(),
        "no targets that a loss picks by were found": Evidence(
            recorded=[RecordedStep(1, [untested])]
        ),
        "lossleuth failed to measure the alignment: KeyError: 3": Evidence(
            recorded=[RecordedStep(1, errored={"alignment": "KeyError: 3"})]
        ),
        "the alignment could not be measured on any recorded step": Evidence(
            recorded=[RecordedStep(1, [finding(Leaks, 0.5)])]
        ),
    }
    for reason, evidence in reasons.items():
        judgement = CAUSE.judged(evidence)
        assert (judgement.status, judgement.because) == (Status.UNTESTED, reason)


def test_a_limit_is_its_number_and_knows_where_it_comes_from() -> None:
    limit = Limit(0.9, "least share of steps", "lab: healthy at most 0.1")
    assert limit == 0.9 and limit.bounds == "least share of steps"
    assert Limit(1, "anything").source == BY_HAND
    assert copy.deepcopy(limit).bounds == limit.bounds
    assert CAUSE.needs_by_name == ("alignment",)
