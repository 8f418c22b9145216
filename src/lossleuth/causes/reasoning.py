"""What judges share: reading places, and the step from a fault that is there to a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status, Where

# A difference of true losses that nobody would care about, in nats.
NOTHING = 0.01


def where_of(place: str | None, module: str | None = None) -> Where | None:
    """A place as `file:line` taken apart.

    >>> where_of("train.py:12")
    Where(file='train.py', line=12, module=None)
    """
    if not place:
        return None
    file, _, line = place.rpartition(":")
    return Where(file, int(line), module) if file and line.isdigit() else Where(place, None, module)


def first_place(places: Iterable[str | None]) -> Where | None:
    """The first that is there."""
    return next((where_of(place) for place in places if place), None)


def update_place(evidence: Evidence) -> Where | None:
    """The line that makes the update; where none is seen, the one that differentiates."""
    return _phase(evidence, "update") or _phase(evidence, "backward")


def backward_place(evidence: Evidence) -> Where | None:
    """The line that differentiates."""
    return _phase(evidence, "backward")


def rule_place(evidence: Evidence) -> Where | None:
    """The user's own line that writes to parameters, if there is one."""
    return first_place(p for w in evidence.windows for p in w.get("update_places") or ())


def clip_place(evidence: Evidence) -> Where | None:
    """The line that clips, where it was seen, else the one that updates."""
    return _phase(evidence, "clip") or update_place(evidence)


def optimizer_place(evidence: Evidence) -> Where | None:
    """The line that made the optimizer, else the one that lets it step."""
    made = [o.get("place") for o in evidence.settings.get("optimizers", ())]
    return first_place(made) or update_place(evidence)


def weights_place(evidence: Evidence) -> Where | None:
    """The file that the first weights stand in, else where the optimizer took them."""
    files = (evidence.origins.get("weights") or {}).get("files") or ()
    return Where(files[0]["file"]) if files else optimizer_place(evidence)


def setting_place(evidence: Evidence, setting: str) -> Where | None:
    """The file in which a setting's value stands, where the run has read it from one."""
    found = (evidence.origins.get("settings") or {}).get(setting)
    return None if not found else Where(found["file"], None)


def library_place(evidence: Evidence) -> Where | None:
    """The one shared library that came with no package, if there is exactly one."""
    libraries = [x for x in evidence.provenance.get("libraries", ()) if ".so" in x]
    return Where(libraries[0]) if len(libraries) == 1 else None


def _phase(evidence: Evidence, phase: str) -> Where | None:
    for step in evidence.steps:
        place = (step.get("places") or {}).get(phase)
        if place:
            return where_of(place)
    return None


def is_adaptive(evidence: Evidence) -> bool:
    """Whether updates do not depend on the size of gradients: the optimizer divides by it."""
    groups = [g for o in evidence.settings.get("optimizers", ()) for g in o.get("groups", ())]
    return bool(groups) and all(g.get("betas") is not None or "alpha" in g for g in groups)


def decided_by_trial(
    evidence: Evidence,
    fault: Judgement,
    changes: Sequence[Change],
    *,
    least: float = NOTHING,
    cure: Change | None = None,
) -> Judgement:
    """A fault that is there: proven if undoing it helps, benign if it does not.

    Until it was tried it is suspected, and asks for the trial.
    """
    answers = evidence.answers(changes)
    if not answers:
        reasons = [evidence.failed[c] for c in changes if c in evidence.failed]
        if reasons and len(reasons) == len(changes):
            told = f"{fault.because} The trial could not be made: {reasons[0]}."
            # What only a trial could show has not been shown.
            status = Status.UNTESTED if fault.wrongness is None else Status.SUSPECTED
            return replace(fault, status=status, because=told)
        return replace(fault, status=Status.SUSPECTED, trials_wanted=tuple(changes))
    best = max(answers, key=lambda effect: (effect.seeds >= 3, effect.nats))
    if best.is_better and best.nats >= least:
        told = f"{fault.because} Undone: {best.sentence}."
        return replace(
            fault,
            status=Status.PROVEN,
            because=told,
            harm=best,
            cure=cure if cure is not None else best.change,
        )
    if best.seeds < 3 and best.nats >= least:
        hopeful = max(answers, key=lambda effect: effect.nats)
        return replace(fault, status=Status.SUSPECTED, trials_wanted=(hopeful.change,))
    told = f"{fault.because} It does not matter here: {best.sentence}{_at_length(evidence, best)}."
    return replace(fault, status=Status.BENIGN, because=told, harm=best)


def _at_length(evidence: Evidence, brief: Effect) -> str:
    """What a longer pair of runs says of a change that made no difference."""
    pair = evidence.longer.get(brief.change)
    if pair is None or pair.steps <= brief.steps:
        return ""
    return f", {pair.nats:+.3f} nats in one pair of {pair.steps} steps"


def finite(values: Iterable[Any]) -> list[float]:
    """Those that are numbers."""
    return [float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]


def share(part: float, whole: float) -> float:
    """A share, 0 of nothing."""
    return part / whole if whole else 0.0


def latest(windows: Sequence[Mapping[str, Any]], probe: str) -> Mapping[str, Any] | None:
    """What a probe found in the last window that has it."""
    found = [w[probe] for w in windows if w.get(probe)]
    return found[-1] if found else None


def true_losses(evidence: Evidence) -> list[tuple[int, float]]:
    """Step and true loss of each recorded step."""
    found = []
    for window in evidence.windows:
        loss = (window.get("true_loss") or {}).get("loss")
        if loss is not None:
            found.append((int(window["step"]), float(loss)))
    return found


def vocabulary(evidence: Evidence) -> int | None:
    """The number of classes that the loss chooses among."""
    for window in evidence.windows:
        found = (window.get("true_loss") or {}).get("vocabulary")
        if found:
            return int(found)
    classes = evidence.series("classes")
    return int(classes[-1]) if classes else None


def is_torn(evidence: Evidence) -> bool:
    """Whether classes and positions change places before the loss: then rows of logits are none."""
    return any(s.get("picked_elsewhere") for s in evidence.probed("softmaxes"))


def frozen_share(evidence: Evidence) -> float:
    """The share of the parameters in use that ask for no gradient."""
    return max(
        (float(c.get("frozen_share", 0.0)) for c in evidence.probed("coverage")), default=0.0
    )


def unigram(evidence: Evidence) -> float | None:
    """The entropy of the targets seen."""
    seen = evidence.series("unigram")
    return float(seen[-1]) if seen else None
