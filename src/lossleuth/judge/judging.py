"""Asks every judge; one that fails costs one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status

# Changes that a rule which divides by the gradient's size may not notice at all.
BLIND = frozenset(("scale_gradient", "clip_gradients"))


def judge_all(causes: Sequence[Cause], evidence: Evidence) -> dict[str, Judgement]:
    """The judgement of each cause by its id."""
    return {cause.id: _judged(cause, evidence) for cause in causes}


def stood_down(causes: Sequence[Cause], judgements: dict[str, Judgement]) -> dict[str, Judgement]:
    """What needs trials is not tried while a proven fault makes their losses meaningless.

    A fault that is plainly there stays suspected; one that only a trial could show is untested.
    """
    proven = _harming(causes, judgements)
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


def without_trials(judgements: dict[str, Judgement]) -> dict[str, Judgement]:
    """Where no trial can be made, what only a trial could show stays untested."""
    found = dict(judgements)
    for identifier, judgement in judgements.items():
        if judgement.status is Status.SUSPECTED and judgement.wrongness is None:
            reason = f"{judgement.because} No trial can be made of a program without an optimizer."
            found[identifier] = replace(judgement, status=Status.UNTESTED, because=reason, wants=())
    return found


def untried(judgements: dict[str, Judgement]) -> dict[str, Judgement]:
    """Of a run that learns, what only a trial could show and none was made for is no suspicion."""
    found = dict(judgements)
    for identifier, judgement in judgements.items():
        guessed = judgement.status is Status.SUSPECTED and judgement.wrongness is None
        if guessed and judgement.wants:
            reason = f"{judgement.because} The run learns, and no trial was made that could tell."
            found[identifier] = replace(judgement, status=Status.UNTESTED, because=reason, wants=())
    return found


def unacted(judgements: dict[str, Judgement]) -> dict[str, Judgement]:
    """A trial in which no loss differs in any bit never came to act, and clears nobody."""
    found = dict(judgements)
    for identifier, judgement in judgements.items():
        harm = judgement.harm
        if judgement.status is not Status.BENIGN or harm is None or harm.change.name in BLIND:
            continue
        if harm.nats == 0 == harm.error and harm.seeds > 1:
            told = f"{judgement.because} But the losses of all pairs are the same to the last bit: "
            told += f"in {harm.steps} steps the change never came to act, and nothing is known."
            found[identifier] = replace(judgement, status=Status.UNTESTED, because=told, harm=None)
    return found


def explained(causes: Sequence[Cause], judgements: dict[str, Judgement]) -> dict[str, Judgement]:
    """Suspicions that a proven fault explains, or that were not tried without it, are dropped.

    They are untested, with the reason: the fault may well be the whole story.
    """
    judgements = unacted(judgements)
    proven = _harming(causes, judgements)
    if not proven:
        return judgements
    found = dict(judgements)
    for cause in causes:
        judgement = judgements[cause.id]
        if judgement.status is not Status.SUSPECTED:
            continue
        other = next((p for p in proven if cause.id in p.overlaps or p.id in cause.overlaps), None)
        if other is None and judgement.wrongness is not None:
            continue
        name = (other or proven[0]).id
        reason = f"{judgement.because} It was not tried without {name}, which is proven."
        found[cause.id] = replace(judgement, status=Status.UNTESTED, because=reason, wants=())
    return found


def _harming(causes: Sequence[Cause], judgements: dict[str, Judgement]) -> list[Cause]:
    """What is proven and can harm a training: a wrong number in an evaluation cannot."""
    proven = [c for c in causes if judgements[c.id].status is Status.PROVEN]
    return [c for c in proven if c.stage is not Stage.EVALUATION]


def _judged(cause: Cause, evidence: Evidence) -> Judgement:
    try:
        return cause.judged(evidence)
    except Exception as error:
        # Our failure, and no reason to lose what the others say.
        return Judgement(Status.ERRORED, f"{type(error).__name__}: {error}")


def wanted(
    judgements: dict[str, Judgement], cures: Sequence[Change] = ()
) -> list[tuple[str, tuple[Change, ...]]]:
    """The trials that suspected causes ask for, in the order of the ladder.

    Faults that are plainly there come before suspicions that only a trial could confirm. Cures
    that are in already need no trial.
    """
    asking = {
        identifier: judgement
        for identifier, judgement in judgements.items()
        if judgement.status is Status.SUSPECTED and set(judgement.wants) - set(cures)
    }
    there = {identifier: j for identifier, j in asking.items() if j.wrongness is not None}
    return [(identifier, judgement.wants) for identifier, judgement in (there or asking).items()]
