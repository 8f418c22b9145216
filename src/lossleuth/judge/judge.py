"""The one way from what was gathered to a verdict: for new runs, saved runs and watched runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from lossleuth.judge.blind_spots import drop_blind
from lossleuth.judge.by_phase import does_again, grouped, in_phase, why_not_judged, worst
from lossleuth.judge.challenging import gains
from lossleuth.judge.context_reach import context_reach
from lossleuth.judge.health import shortcomings
from lossleuth.judge.judging import (
    Judgements,
    drop_explained,
    drop_ineffective_trials,
    drop_untriable,
    drop_untried,
    drop_voided,
    harmful,
    judge_all,
)
from lossleuth.judge.known_numbers import recognised
from lossleuth.judge.learning import learning
from lossleuth.judge.reach import reach, steps_made
from lossleuth.judge.verdict import PhaseVerdict, Verdict, VerdictStatus
from lossleuth.judge.yardstick import furthest_behind
from lossleuth.judge.yardstick import told as told_of_yardstick
from lossleuth.types.cause import Cause
from lossleuth.types.challenge import Challenge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Stage, Status

RANK = (Status.PROVEN, Status.SUSPECTED, Status.BENIGN)
# The answer for a script is that of its worst phase.
WORST: tuple[VerdictStatus, ...] = ("proven", "suspected", "cannot_tell", "healthy")


@dataclass(frozen=True)
class Circumstances:
    """What a judge has to know of an examination beside what was seen."""

    # The program trains without autograd: it has no optimizer through which it could be changed.
    by_hand: bool = False
    # The user ended it early: what was not seen is not known.
    interrupted: bool = False


def judge(
    causes: Sequence[Cause],
    looks: Sequence[Evidence],
    circumstances: Circumstances | None = None,
    seconds: float = 0.0,
    *,
    battery: Sequence[Challenge] = (),
) -> Verdict:
    """The verdict on a program: by the first look at it, and by further ones with cures in.

    A look is the evidence of one observation, with the trials that were made on top of it. The
    battery is what a healthy run has to stand.
    """
    circumstances = circumstances or Circumstances()
    if not looks:
        return Verdict("cannot_tell", {}, [], 0, seconds, ("nothing was observed",))
    groups = grouped(looks)
    firsts = [group[0] for group in groups]
    last = firsts[-1]
    seen, steps = reach(last), steps_made(last)
    headroom = tuple(gain for first in firsts for gain in gains(battery, first))
    behind = furthest_behind(firsts)
    phases: list[PhaseVerdict] = []
    if len(groups) == 1 and last.phase is None:
        status, known, order, notes = _judge_alone(causes, looks, circumstances, battery)
    else:
        phases, told = _judge_phases(causes, groups, circumstances, battery)
        known = worst(phases)
        # The answer first: that of the worst phase.
        worst_first = sorted(phases, key=lambda part: WORST.index(part.status))
        status, order = worst_first[0].status, ranked(causes, known)
        notes = (*(note for part in worst_first for note in part.notes), *told)
    return Verdict(
        status,
        known,
        order,
        steps,
        seconds,
        (*_blindness(last), *notes, seen.sentence(steps)),
        reach=seen,
        phases=tuple(phases),
        headroom=headroom,
        yardstick=behind,
    )


def judged_phases(firsts: Sequence[Evidence]) -> list[int]:
    """Which of the first looks at each phase are judged; the others are only told."""
    return [i for i, look in enumerate(firsts) if why_not_judged(look, firsts) is None]


def challenged_phases(firsts: Sequence[Evidence]) -> list[int]:
    """Those of them that are challenged: the others do again what one of these has done."""
    found: list[int] = []
    for i in judged_phases(firsts):
        if does_again(firsts[i], [firsts[j] for j in found]) is None:
            found.append(i)
    return found


def _judge_phases(
    causes: Sequence[Cause],
    groups: Sequence[Sequence[Evidence]],
    circumstances: Circumstances,
    battery: Sequence[Challenge],
) -> tuple[list[PhaseVerdict], list[str]]:
    """What is said of each phase, and of those that are told and not judged."""
    firsts = [group[0] for group in groups]
    judged: list[PhaseVerdict] = []
    told: list[str] = []
    challenged: list[Evidence] = []
    for group in groups:
        phase = group[0].phase
        assert phase is not None
        reason = why_not_judged(group[0], firsts)
        if reason is not None:
            told.append(f"{phase.sentence}: {reason}")
            continue
        done_before = does_again(group[0], challenged)
        taken = battery if done_before is None else ()
        status, known, order, notes = _judge_alone(causes, group, circumstances, taken)
        if done_before is None:
            challenged.append(group[0])
        else:
            known_as = f"it does what phase {done_before.number} did, whose challenges stand for it"
            notes = (*notes, known_as)
        if status == "healthy" and not group[0].recorded:
            # Its loss falls, and nothing else is known of it.
            status, notes = "cannot_tell", (*notes, "no step of it was recorded")
        notes = tuple(f"{phase.sentence}: {note}" for note in notes)
        judged.append(PhaseVerdict(phase, status, in_phase(known, phase), order, notes))
    return judged, told


def _judge_alone(
    causes: Sequence[Cause],
    looks: Sequence[Evidence],
    circumstances: Circumstances,
    battery: Sequence[Challenge],
) -> tuple[VerdictStatus, Judgements, list[str], tuple[str, ...]]:
    """The answer, every judgement, what is there, and what is seen of a run or one phase of it."""
    first = looks[0]
    state = learning(first)
    known = drop_ineffective_trials(judge_looks(causes, looks, circumstances))
    known = drop_untried(drop_explained(causes, known))
    order = ranked(causes, known, _hidden_at_first(causes, known, first, circumstances))
    status = status_of(order, known)
    seen = [state.sentence, *recognised(first)]
    told = [*(gain.sentence for gain in gains(battery, first)), *told_of_yardstick(first)]
    told += context_reach(first)
    if status != "healthy":
        return status, known, order, (*seen, *told)
    missing = [] if state.learns else [f"nothing shows that the run is learning ({seen.pop(0)})"]
    if circumstances.interrupted:
        missing.append("the examination was interrupted")
    # A program without an optimizer takes no challenges.
    taken = () if circumstances.by_hand else battery
    missing += shortcomings(causes, known, first, taken)
    # A blind observer never says healthy; what it did not see is said before all else.
    if missing or first.missing_patches:
        told = [sentence for sentence in told if sentence not in missing]
        return "cannot_tell", known, order, (*missing, *seen, *told)
    return status, known, order, (*seen, *told)


def _blindness(look: Evidence) -> list[str]:
    """What could not be watched, first of all."""
    return [
        f"lossleuth could not watch {patch} in this version of torch ({problem})."
        for patch, problem in look.missing_patches.items()
    ]


def judge_looks(
    causes: Sequence[Cause], looks: Sequence[Evidence], circumstances: Circumstances
) -> Judgements:
    """What all looks together say of each cause."""
    known: Judgements = {}
    for look in looks:
        judgements = judge_look(causes, look, circumstances)
        known = merged(known, judgements, look.cures) if known else judgements
    return known


def judge_look(causes: Sequence[Cause], look: Evidence, circumstances: Circumstances) -> Judgements:
    """What one look says; with a cure in, nothing stands in the way of trials any more."""
    judgements = drop_blind(causes, judge_all(causes, look), look.missing_patches)
    if circumstances.by_hand:
        judgements = drop_untriable(judgements)
    return judgements if look.cures else drop_voided(causes, judgements)


def merged(known: Judgements, again: Judgements, cures: Sequence[Change] = ()) -> Judgements:
    """What was judged with cures in outranks what was judged before, where it found more."""
    inside = " and ".join(cure.sentence for cure in cures)
    seen = f" (seen with {inside} in)" if inside else ""
    found = dict(known)
    for identifier, judgement in again.items():
        before = known[identifier].status
        more = judgement.status is Status.PROVEN and before is not Status.PROVEN
        settled = judgement.status in (Status.REFUTED, Status.BENIGN)
        if more or (before in (Status.SUSPECTED, Status.UNTESTED) and settled):
            because = f"{judgement.because.removesuffix('.')}{seen}"
            found[identifier] = replace(judgement, because=because)
    return found


def _hidden_at_first(
    causes: Sequence[Cause], known: Judgements, first: Evidence, circumstances: Circumstances
) -> set[str]:
    """What only came to light when a fault was cured that makes losses meaningless."""
    at_first = judge_look(causes, first, circumstances)
    if not any(cause.voids_trials for cause in harmful(causes, at_first)):
        return set()
    proven = Status.PROVEN
    return {i for i in known if known[i].status is proven and at_first[i].status is not proven}


def ranked(
    causes: Sequence[Cause], judgements: Judgements, hidden: Collection[str] = ()
) -> list[str]:
    """What is there, proven before suspected before benign, earlier stages first.

    What another fault has hidden comes after those that were plain to see: it is to be fixed next.
    """
    order = list(Stage)
    there = [c for c in causes if judgements[c.id].status in RANK]
    there.sort(
        key=lambda c: (RANK.index(judgements[c.id].status), c.id in hidden, order.index(c.stage))
    )
    return [c.id for c in there]


def status_of(order: Sequence[str], judgements: Judgements) -> VerdictStatus:
    """The whole in one word, by what is there; healthy has to be earned by more than that."""
    statuses = {judgements[identifier].status for identifier in order}
    if Status.PROVEN in statuses:
        return "proven"
    if Status.SUSPECTED in statuses:
        return "suspected"
    return "healthy"
