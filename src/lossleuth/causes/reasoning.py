"""What judges share: reading places and numbers, and turning a fault into a verdict by trial."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Softmaxes
from lossleuth.findings.update import Coverage, UpdateLines
from lossleuth.types.cause import Limit
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import NEXT_PHASE, Evidence
from lossleuth.types.judgement import Judgement, Status, Where

# Less is headroom: it is told, and nobody is blamed for it.
MIN_EFFECT_NATS = Limit(
    0.1,
    "least gain of a trial, in nats, that counts as harm",
    "what a user would care about; healthy programs gain less by most changes",
)
MIN_GROWING_NATS = Limit(
    0.01,
    "least sure gain of undoing a fault, in nats, that may grow to harm in a run that goes on",
)
# A trial covers a run if it is so much of it.
COVERED_SHARE = 0.9


def where_of(place: str | None, module: str | None = None) -> Where | None:
    """A place given as `file:line`, split into file and line.

    >>> where_of("train.py:12")
    Where(file='train.py', line=12, module=None)
    """
    if not place:
        return None
    file, _, line = place.rpartition(":")
    return Where(file, int(line), module) if file and line.isdigit() else Where(place, None, module)


def first_place(places: Iterable[str | None]) -> Where | None:
    """The first place that is known."""
    return next((where_of(place) for place in places if place), None)


def update_place(evidence: Evidence) -> Where | None:
    """The line that makes the update, else the line of the backward pass."""
    return _phase(evidence, "update") or _phase(evidence, "backward")


def backward_place(evidence: Evidence) -> Where | None:
    """The line of the backward pass."""
    return _phase(evidence, "backward")


def rule_place(evidence: Evidence) -> Where | None:
    """The user's own line that writes to parameters, if there is one."""
    return first_place(place for lines in evidence.all(UpdateLines) for place in lines.places)


def clip_place(evidence: Evidence) -> Where | None:
    """The line that clips gradients, else the line that makes the update."""
    return _phase(evidence, "clip") or update_place(evidence)


def optimizer_place(evidence: Evidence) -> Where | None:
    """The line that made the optimizer, else the line that makes the update."""
    made = [optimizer.place for optimizer in evidence.settings.optimizers]
    return first_place(made) or update_place(evidence)


def schedule_place(evidence: Evidence) -> Where | None:
    """The file or the line that the schedule comes from, else the optimizer's."""
    made = [scheduler.place for scheduler in evidence.settings.schedulers]
    return setting_place(evidence, "schedule") or first_place(made) or optimizer_place(evidence)


def weights_place(evidence: Evidence) -> Where | None:
    """The file that the first weights came from, else the line that made the optimizer."""
    weights = evidence.origins.weights
    files = weights.files if weights is not None else ()
    return Where(files[0].file) if files else optimizer_place(evidence)


def setting_place(evidence: Evidence, setting: str) -> Where | None:
    """The file that a setting was read from, if there is one."""
    found = evidence.origins.settings.get(setting)
    return None if found is None else Where(found.file)


def library_place(evidence: Evidence) -> Where | None:
    """The shared library that came with no package, if there is exactly one."""
    libraries = [x for x in evidence.provenance.libraries if ".so" in x]
    return Where(libraries[0]) if len(libraries) == 1 else None


def _phase(evidence: Evidence, phase: str) -> Where | None:
    for step in evidence.steps:
        place = (step.places or {}).get(phase)
        if place:
            return where_of(place)
    return None


def decided_by_trial(
    evidence: Evidence,
    fault: Judgement,
    changes: Sequence[Change],
    *,
    min_effect: float = MIN_EFFECT_NATS,
    cure: Change | None = None,
) -> Judgement:
    """A fault that is there: proven if undoing it helps, benign if it does not.

    Until it was tried it is suspected, and asks for the trial. It stays suspected where undoing it
    helps a little, in a trial that is far shorter than the run.
    """
    answers = evidence.answers(changes)
    if not answers:
        reasons = [evidence.failed[c] for c in changes if c in evidence.failed]
        if reasons and len(reasons) == len(changes):
            because = f"{fault.because} The trial could not be made: {reasons[0]}."
            # What only a trial could show has not been shown.
            status = Status.UNTESTED if fault.wrongness is None else Status.SUSPECTED
            return replace(fault, status=status, because=because)
        return replace(fault, status=Status.SUSPECTED, trials_wanted=tuple(changes))
    best = max(answers, key=lambda effect: (effect.seeds >= 3, effect.nats))
    if best.is_better and best.nats >= min_effect:
        because = f"{fault.because} With it fixed: {best.sentence}."
        return replace(
            fault,
            status=Status.PROVEN,
            because=because,
            harm=best,
            cure=cure if cure is not None else best.change,
        )
    if best.seeds < 3 and best.nats >= min_effect:
        hopeful = max(answers, key=lambda effect: effect.nats)
        return replace(fault, status=Status.SUSPECTED, trials_wanted=(hopeful.change,))
    if fault.wrongness is not None and _may_grow(evidence, best):
        because = (
            f"{fault.because} What it costs grows from a little: {best.sentence}, where the run "
            f"has {len(evidence.steps)} steps."
        )
        return replace(fault, status=Status.SUSPECTED, because=because, harm=best)
    because = f"{fault.because} Harmless here: {best.sentence}{_at_length(evidence, best)}."
    return replace(fault, status=Status.BENIGN, because=because, harm=best)


def _may_grow(evidence: Evidence, effect: Effect) -> bool:
    """Whether a small gain is sure, and the run so much longer that it may not stay small."""
    is_short = 2 * effect.steps <= len(evidence.steps) and effect.change not in evidence.longer
    return is_short and effect.is_better and effect.nats >= MIN_GROWING_NATS


def covers_run(evidence: Evidence, effect: Effect) -> bool:
    """Whether a trial was as long as the script's own whole run, or a whole phase of it."""
    whole = evidence.ending.is_own or evidence.ending.how == NEXT_PHASE
    return whole and effect.steps >= COVERED_SHARE * len(evidence.steps)


def sure_gain(
    evidence: Evidence, changes: Sequence[Change], min_effect: float = MIN_EFFECT_NATS
) -> Effect | None:
    """The largest gain of any of these changes that is beyond doubt, if it counts as harm."""
    found = [e for e in evidence.answers(changes) if e.is_better and e.nats >= min_effect]
    return max(found, key=lambda effect: effect.nats, default=None)


def _at_length(evidence: Evidence, brief: Effect) -> str:
    """What a longer pair of runs says of a change that made no difference."""
    pair = evidence.longer.get(brief.change)
    if pair is None or pair.steps <= brief.steps:
        return ""
    return f", {pair.nats:+.3f} nats in one pair of {pair.steps} steps"


def finite(values: Iterable[float | None]) -> list[float]:
    """Those that are finite numbers."""
    return [value for value in values if value is not None and math.isfinite(value)]


def share(part: float, whole: float) -> float:
    """The share of a part in the whole; 0 if the whole is 0."""
    return part / whole if whole else 0.0


def true_losses(evidence: Evidence) -> list[tuple[int, float]]:
    """Step and true loss of each recorded step."""
    return [(step, t.loss) for step, t in evidence.by_step(TrueLoss) if t.loss is not None]


def vocabulary(evidence: Evidence) -> int | None:
    """The number of classes that the loss chooses among."""
    sizes = [true.vocabulary for true in evidence.all(TrueLoss) if true.vocabulary]
    classes = [step.classes for step in evidence.steps if step.classes is not None]
    return sizes[0] if sizes else classes[-1] if classes else None


def is_torn(evidence: Evidence) -> bool:
    """Whether classes and positions are mixed up before the loss: then no row of logits is one."""
    return any(softmaxes.picked_elsewhere for softmaxes in evidence.all(Softmaxes))


def frozen_share(evidence: Evidence) -> float:
    """The share of the parameters in use that ask for no gradient."""
    return max((coverage.frozen_share for coverage in evidence.all(Coverage)), default=0.0)


def rate_is_idle(evidence: Evidence) -> str | None:
    """Why no rate could change anything, if so: every gradient used is exactly 0, and so is its
    update.
    """
    norms = [step.grad_norm for step in evidence.steps if step.grad_norm is not None]
    moved = (update for row in evidence.readings.update_rms for update in row)
    if not norms or any(norms) or any(update and math.isfinite(update) for update in moved):
        return None
    return (
        f"the gradient that is used has a norm of exactly 0 at each of {len(norms)} steps, and no "
        "parameter moved: at any rate, the update is 0"
    )


def unigram(evidence: Evidence) -> float | None:
    """The entropy of the targets that were seen, in nats."""
    seen = [step.unigram for step in evidence.steps if step.unigram is not None]
    return seen[-1] if seen else None
