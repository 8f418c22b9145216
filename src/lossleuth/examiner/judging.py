"""Asks every judge; one that fails costs one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lossleuth.types import Cause, Change, Evidence, Judgement, Status


def judge_all(causes: Sequence[Cause], evidence: Evidence) -> dict[str, Judgement]:
    """The judgement of each cause by its id."""
    return {cause.id: _judged(cause, evidence) for cause in causes}


def stood_down(causes: Sequence[Cause], judgements: dict[str, Judgement]) -> dict[str, Judgement]:
    """What needs trials is not tried while a proven fault makes their losses meaningless.

    A fault that is plainly there stays suspected; one that only a trial could show is untested.
    """
    proven = [c for c in causes if judgements[c.id].status is Status.PROVEN]
    plain = [c.id for c in proven if judgements[c.id].harm is None]
    void = [c.id for c in proven if c.voids_trials]
    if not plain:
        return judgements
    found = dict(judgements)
    for identifier, judgement in judgements.items():
        there = judgement.wrongness is not None
        if judgement.status is Status.SUSPECTED and judgement.wants and (void or not there):
            reason = f"{judgement.because} Trials mean nothing while {plain[0]} is there."
            status = Status.SUSPECTED if there else Status.UNTESTED
            found[identifier] = replace(judgement, status=status, because=reason, wants=())
    return found


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
