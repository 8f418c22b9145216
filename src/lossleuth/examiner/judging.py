"""Asks every judge; one that fails costs one answer."""

from __future__ import annotations

from collections.abc import Sequence

from lossleuth.types import Cause, Change, Evidence, Judgement, Status


def judge_all(causes: Sequence[Cause], evidence: Evidence) -> dict[str, Judgement]:
    """The judgement of each cause by its id."""
    return {cause.id: _judged(cause, evidence) for cause in causes}


def _judged(cause: Cause, evidence: Evidence) -> Judgement:
    try:
        return cause.judge(evidence)
    except Exception as error:
        # Our failure, and no reason to lose what the others say.
        return Judgement(Status.ERRORED, f"{type(error).__name__}: {error}")


def wanted(judgements: dict[str, Judgement]) -> list[tuple[str, tuple[Change, ...]]]:
    """The trials that suspected causes ask for, in the order of the ladder."""
    return [
        (identifier, judgement.wants)
        for identifier, judgement in judgements.items()
        if judgement.status is Status.SUSPECTED and judgement.wants
    ]
