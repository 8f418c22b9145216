"""Asks every judge, and drops suspicions that nothing can confirm any more.

What is dropped becomes untested, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lossleuth.interventions.spec import spec_of
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status

Judgements = dict[str, Judgement]


def judge_all(causes: Sequence[Cause], evidence: Evidence) -> Judgements:
    """The judgement of each cause by its id; a judge that fails costs one answer."""
    return {cause.id: _judged(cause, evidence) for cause in causes}


def drop_voided(causes: Sequence[Cause], judgements: Judgements) -> Judgements:
    """Drop trials that a proven fault makes meaningless.

    A fault that is plainly there stays suspected; one that only a trial could show is untested.
    """
    proven = harmful(causes, judgements)
    plain = [c.id for c in proven if judgements[c.id].harm is None]
    void = [c.id for c in proven if c.voids_trials]
    if not plain:
        return judgements
    found = dict(judgements)
    for identifier, judgement in judgements.items():
        there = judgement.wrongness is not None
        wanted = judgement.status is Status.SUSPECTED and judgement.trials_wanted
        if wanted and (void or not there):
            reason = f"{judgement.because} Trials mean nothing while {plain[0]} is there."
            status = Status.SUSPECTED if there else Status.UNTESTED
            found[identifier] = replace(judgement, status=status, because=reason, trials_wanted=())
    return found


def drop_untriable(judgements: Judgements) -> Judgements:
    """Where no trial can be made, drop what only a trial could show."""
    found = dict(judgements)
    for identifier, judgement in judgements.items():
        if judgement.status is Status.SUSPECTED and judgement.wrongness is None:
            reason = "No trial can be made of a program without an optimizer."
            found[identifier] = _dropped(judgement, reason)
    return found


def drop_untried(judgements: Judgements) -> Judgements:
    """Drop what only a trial could show and none was made for: a lack of time is no suspicion."""
    found = dict(judgements)
    for identifier, judgement in judgements.items():
        guessed = judgement.status is Status.SUSPECTED and judgement.wrongness is None
        if guessed and judgement.trials_wanted:
            reason = "No trial was made that could tell."
            found[identifier] = _dropped(judgement, reason)
    return found


def drop_ineffective_trials(judgements: Judgements) -> Judgements:
    """A trial in which no loss differs in any bit never came to act, and clears nobody.

    What was measured to be wrong stays suspected; what only a trial could show is untested.
    """
    found = dict(judgements)
    for identifier, judgement in judgements.items():
        harm = judgement.harm
        if judgement.status is not Status.BENIGN or harm is None:
            continue
        same = harm.nats == 0 == harm.error and harm.seeds > 1
        if same and not spec_of(harm.change.name).only_scales_gradients:
            because = (
                f"{judgement.because} But the losses of all pairs are the same to the last bit: "
                f"in {harm.steps} steps the change never came to act, and nothing is known."
            )
            there = judgement.wrongness is not None
            status = Status.SUSPECTED if there else Status.UNTESTED
            found[identifier] = replace(judgement, status=status, because=because, harm=None)
    return found


def drop_explained(causes: Sequence[Cause], judgements: Judgements) -> Judgements:
    """Drop suspicions that a proven fault explains, or that were not tried without it.

    The fault may well be the whole story.
    """
    proven = harmful(causes, judgements)
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
        reason = f"It was not tried without {name}, which is proven."
        found[cause.id] = _dropped(judgement, reason)
    return found


def harmful(
    causes: Sequence[Cause],
    judgements: Judgements,
    statuses: tuple[Status, ...] = (Status.PROVEN,),
) -> list[Cause]:
    """What is proven and can harm a training: a wrong number in an evaluation cannot."""
    found = [c for c in causes if judgements[c.id].status in statuses]
    return [c for c in found if c.stage is not Stage.EVALUATION]


def trials_wanted(
    judgements: Judgements, cures: Sequence[Change] = ()
) -> list[tuple[str, tuple[Change, ...]]]:
    """The trials that suspected causes ask for, in the order of the ladder.

    Faults that are plainly there come before suspicions that only a trial could confirm. Cures
    that are in already need no trial.
    """
    asking = {
        identifier: judgement
        for identifier, judgement in judgements.items()
        if judgement.status is Status.SUSPECTED and set(judgement.trials_wanted) - set(cures)
    }
    there = {identifier: j for identifier, j in asking.items() if j.wrongness is not None}
    return [(identifier, j.trials_wanted) for identifier, j in (there or asking).items()]


def _dropped(judgement: Judgement, reason: str) -> Judgement:
    because = f"{judgement.because} {reason}"
    return replace(judgement, status=Status.UNTESTED, because=because, trials_wanted=())


def _judged(cause: Cause, evidence: Evidence) -> Judgement:
    try:
        return cause.judged(evidence)
    except Exception as error:
        # Our failure, and no reason to lose what the others say.
        return Judgement(Status.ERRORED, f"{type(error).__name__}: {error}")
