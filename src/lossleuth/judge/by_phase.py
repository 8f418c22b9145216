"""One verdict on a script that trains several things: that of its worst phase, with all causes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lossleuth.causes.reasoning import MIN_EFFECT_NATS
from lossleuth.judge.judging import Judgements
from lossleuth.judge.verdict import PhaseVerdict
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status
from lossleuth.types.phases import Phase, is_brief

# Of what phases say of a cause, the first of these counts: what is there, then what is not known.
WORST_FIRST = (
    *(Status.PROVEN, Status.SUSPECTED, Status.BENIGN),
    *(Status.ERRORED, Status.UNTESTED, Status.REFUTED),
)
# The share of a phase's losses, at its end, by which it is compared with another.
LAST = 0.1
# Nats by which two first losses of models that were drawn alike may differ. Picked by hand.
MAX_APART_NATS = 0.5


def grouped(looks: Sequence[Evidence]) -> list[list[Evidence]]:
    """The looks of each phase, in the order of the run."""
    found: dict[int, list[Evidence]] = {}
    for look in looks:
        found.setdefault(0 if look.phase is None else look.phase.number, []).append(look)
    return [found[number] for number in sorted(found)]


def why_not_judged(look: Evidence, others: Sequence[Evidence]) -> str | None:
    """Why a phase is told and not judged; None for one that is."""
    phases = [other.phase for other in others if other.phase is not None]
    if look.phase is None:
        return None
    if is_brief(look.phase, phases):
        return f"{look.phase.steps} steps are too few to be judged beside the others"
    if look.recorded:
        return None
    for other in others:
        same_lines = _kinds(other) == _kinds(look) != set()
        if other.recorded and other.phase is not None and same_lines and _ends_as_low(look, other):
            return (
                f"no step of it was recorded, so it is not judged; phase {other.phase.number} "
                "trains by the same lines, and ends no lower"
            )
    return None


def does_again(look: Evidence, earlier: Sequence[Evidence]) -> Phase | None:
    """An earlier phase that began and did the same and came no further, as another seed does.

    What that one stood of challenges, this one need not stand again.
    """
    return next((other.phase for other in earlier if _is_same_work(look, other)), None)


def _is_same_work(look: Evidence, other: Evidence) -> bool:
    same_lines = _kinds(look) == _kinds(other) != set()
    same_model = list(look.sizes) == list(other.sizes)
    same_rule = look.settings.groups == other.settings.groups and math.isclose(
        max(look.learning_rates, default=0.0), max(other.learning_rates, default=0.0)
    )
    if not (same_lines and same_model and same_rule and look.losses and other.losses):
        return False
    begins_alike = abs(look.losses[0] - other.losses[0]) <= MAX_APART_NATS
    return begins_alike and _ends_as_low(look, other)


def _ends_as_low(look: Evidence, other: Evidence) -> bool:
    """Whether its loss is not above the other's at the end; not so if it is no number."""
    if not (look.losses and other.losses):
        return False
    return _end(look) <= _end(other) + MIN_EFFECT_NATS


def _end(look: Evidence) -> float:
    """The mean loss at the end of a phase."""
    return statistics.fmean(look.losses[-max(1, int(LAST * len(look.losses))) :])


def in_phase(judgements: Mapping[str, Judgement], phase: Phase) -> Judgements:
    """The same judgements, which say what phase they speak of."""
    said = f"{phase.sentence[0].upper()}{phase.sentence[1:]}"
    return {
        identifier: replace(j, phase=phase, because=f"{said}: {j.because}")
        for identifier, j in judgements.items()
    }


def worst(judged: Sequence[PhaseVerdict]) -> Judgements:
    """Of each cause what the phase says that it is worst in; of several, the first."""
    found: Judgements = {}
    for part in judged:
        for identifier, judgement in part.judgements.items():
            known = found.get(identifier)
            if known is None or _rank(judgement) < _rank(known):
                found[identifier] = judgement
    return found


def _rank(judgement: Judgement) -> int:
    return WORST_FIRST.index(judgement.status)


def _kinds(look: Evidence) -> set[int]:
    return {trainee.kind for trainee in look.trainees}
