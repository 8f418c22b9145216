"""Whether a run may be called healthy: what was tested, what it stood, what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from lossleuth.causes.rewritten import rewritten
from lossleuth.findings.model import OtherInput
from lossleuth.judge.challenging import gains, unchallenged
from lossleuth.judge.judging import Judgements
from lossleuth.judge.yardstick import Comparison, compared
from lossleuth.types.cause import Cause
from lossleuth.types.challenge import Challenge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status

# What is not known of a cause that has to be ruled out.
OPEN = (Status.UNTESTED, Status.ERRORED)
# Nats by which predictions have to be worse with another text's input for it to be of use, and on
# how many of the last recorded steps that is looked at. Picked by hand.
MIN_WORTH, LAST_STEPS = 0.01, 2
# Reasons of one kind that are told in full.
MAX_TOLD = 3


def shortcomings(
    causes: Sequence[Cause],
    known: Judgements,
    evidence: Evidence,
    battery: Sequence[Challenge],
) -> list[str]:
    """Why a run without a known fault cannot be called healthy, worst first; empty if it can."""
    held_back = [gain.sentence for gain in gains(battery, evidence) if gain.counts]
    found = compared(evidence)
    behind = [found.sentence] if isinstance(found, Comparison) and found.is_behind else []
    return [
        *behind,
        *held_back,
        *_rewritten(evidence),
        *_of_no_use(evidence),
        *_open_questions(causes, known, evidence),
        *_not_tried(battery, evidence),
    ]


def _rewritten(evidence: Evidence) -> list[str]:
    """That something beside the updates writes to the weights."""
    steps = rewritten(evidence)
    if not steps:
        return []
    return [
        f"weights moved by more than their updates at {len(steps)} of {len(evidence.steps)} steps, "
        f"the first at step {steps[0]}: something else writes to them"
    ]


def _of_no_use(evidence: Evidence) -> list[str]:
    """Input beside the text, such as a source to be translated, that tells nothing."""
    last: dict[tuple[str | None, int], list[float]] = {}
    for step in evidence.recorded:
        for other in step.all(OtherInput):
            if other.worth is not None:
                last.setdefault((other.place, other.number), []).append(other.worth)
    useless = {
        place: max(worths[-LAST_STEPS:])
        for (place, _), worths in last.items()
        if len(worths) >= LAST_STEPS and max(worths[-LAST_STEPS:]) < MIN_WORTH
    }
    return [
        f"what is looked up at {place or 'one place'} tells nothing of the targets: with that of "
        f"another text, predictions are {worth:.2g} nats worse"
        for place, worth in useless.items()
    ]


def _open_questions(causes: Sequence[Cause], known: Judgements, evidence: Evidence) -> list[str]:
    """The structural invariants that could not be tested."""
    missing = [c.id for c in causes if known[c.id].status in OPEN and c.is_core(evidence)]
    told = [f"{i} was not tested: {known[i].because.rstrip('.')}" for i in missing[:MAX_TOLD]]
    more = len(missing) - MAX_TOLD
    return [*told, f"{more} more structural causes were not tested"] if more > 0 else told


def _not_tried(battery: Sequence[Challenge], evidence: Evidence) -> list[str]:
    """The challenges for which there was no time."""
    missing = unchallenged(battery, evidence)
    return [f"it was not tried {', '.join(missing)}"] if missing else []
