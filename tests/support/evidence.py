"""Evidence by hand, in the shapes that the examiner makes, and what every judgement must keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lossleuth.causes.reasoning import MIN_EFFECT_NATS
from lossleuth.findings.data import TargetLines
from lossleuth.findings.finding import Finding
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status, Where
from lossleuth.types.observed import Made, ParameterGroup, RunSettings, Step

Judge = Callable[[Evidence], Judgement]

# Lines of an imagined script: the loss, the backward pass, the update, where the optimizer is made.
LOSS, BACKWARD, UPDATE, OPTIMIZER = (Where("train.py", line) for line in (18, 19, 20, 5))
ADAMW = Made("train.py:5", [ParameterGroup(betas=(0.9, 0.999))])
SETTINGS = RunSettings(optimizers=[ADAMW])
TARGET_LINES = TargetLines(loss="train.py:18", targets=(), logits=())
REASON = "the program has no such thing"


def steps(count: int, **scalars: Any) -> list[Step]:
    """As many steps; a list gives a scalar step by step, anything else is the same in all."""
    found = []
    for i in range(count):
        given = {k: v[i] if isinstance(v, list) else v for k, v in scalars.items()}
        places = {"backward": "train.py:19", "update": "train.py:20"}
        found.append(Step(**{"step": i, "backwards": 1, "updates": 1, "places": places, **given}))
    return found


def seen(*findings: Finding, count: int = 3, **fields: Any) -> Evidence:
    """Recorded steps that all gave the same findings, with fields of the evidence."""
    return alternating(*[findings] * count, **fields)


def alternating(*findings: Sequence[Finding], **fields: Any) -> Evidence:
    """Recorded steps that gave different findings, one sequence for each."""
    recorded = [
        RecordedStep(i + 1, found if _has_lines(found) else [TARGET_LINES, *found])
        for i, found in enumerate(findings)
    ]
    given = {"recorded": recorded, "settings": SETTINGS, "steps": steps(4), **fields}
    return Evidence(**given)


def _has_lines(findings: Sequence[Finding]) -> bool:
    return any(isinstance(finding, TargetLines) for finding in findings)


def tried(evidence: Evidence, change: Change, nats: float, **given: Any) -> Evidence:
    """The evidence with the effect of a change: by default sure, over three seeds."""
    start, without = given.pop("start", 5.0), given.pop("without", 4.9)
    numbers = {"error": 0.01, "seeds": 3, "steps": 100, **given}
    effect = Effect(
        change, nats, without=without, with_change=without - nats, start=start, **numbers
    )
    return replace(evidence, effects={**evidence.effects, change: effect})


def without_trial(evidence: Evidence, changes: Sequence[Change]) -> Evidence:
    """The evidence with every trial failed."""
    return replace(evidence, failed=dict.fromkeys(changes, REASON))


def check_proven(judgement: Judgement, where: Where | None, *words: str) -> None:
    """Proven, with a number, at that place, with something to be done about it."""
    assert judgement.status is Status.PROVEN, judgement
    assert judgement.where == where
    assert judgement.wrongness is not None
    assert judgement.remedy
    _check_words(judgement, words)


def check_refuted(judgement: Judgement, *words: str) -> None:
    """Tested and not so, with a number."""
    assert judgement.status is Status.REFUTED, judgement
    assert not judgement.trials_wanted
    _check_words(judgement, words)


def check_untested(judgement: Judgement, *words: str) -> None:
    """Not tested, and the reason is told."""
    assert judgement.status is Status.UNTESTED, judgement
    assert judgement.because
    assert all(word in judgement.because for word in words), judgement.because


def check_trial(
    judge: Judge,
    fault: Evidence,
    changes: Sequence[Change],
    where: Where | None,
    *,
    harmless: Status = Status.BENIGN,
    nats: float = 2.0,
    min_effect: float = MIN_EFFECT_NATS,
) -> None:
    """The way from a fault that is there to a verdict: only three seeds that agree prove it."""
    suspected = judge(fault)
    assert suspected.status is Status.SUSPECTED, suspected
    assert suspected.trials_wanted == tuple(changes)
    assert suspected.where == where
    _check_words(suspected, ())

    cure = changes[-1]
    screened = judge(tried(fault, cure, nats, seeds=1, error=0.0))
    assert screened.status is Status.SUSPECTED
    assert screened.trials_wanted == (cure,)

    proven = judge(tried(fault, cure, nats))
    assert proven.status is Status.PROVEN, proven
    assert proven.where == where
    assert proven.harm is not None and proven.harm.nats == nats
    assert proven.cure == cure
    assert proven.wrongness is not None
    assert proven.remedy
    assert "3 paired runs" in proven.because

    for nil in ({"nats": 0.0}, {"nats": -nats}, {"nats": nats, "error": nats}):
        assert judge(tried(fault, cure, **nil)).status is harmless

    sure = {"error": min_effect / 10, "without": 5.0, "start": 5.0}
    assert judge(tried(fault, cure, 1.1 * min_effect, **sure)).status is Status.PROVEN
    assert judge(tried(fault, cure, 0.9 * min_effect, **sure)).status is harmless

    failed = judge(without_trial(fault, changes))
    # What only a trial could show has not been shown.
    there = judge(fault).wrongness is not None
    assert failed.status is (Status.SUSPECTED if there else Status.UNTESTED)
    assert REASON in failed.because
    assert not failed.trials_wanted


def _check_words(judgement: Judgement, words: Sequence[str]) -> None:
    assert re.search(r"\d", judgement.because), judgement.because
    assert all(word in judgement.because for word in words), judgement.because
