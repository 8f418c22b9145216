"""A loss is taken over no target at all.

What it means
    Every target of a batch has the label that the loss ignores, so that the loss is a mean over an
    empty set: NaN, or 0 where the program replaces it.

Why training fails
    One NaN spoils every weight. Where it is replaced, the batch teaches nothing and nobody notices.

How it is judged
    Supervised targets are counted in every step, on recorded steps by their weight in the loss, so
    that a mask by multiplication counts too. A count of 0 is the fault; it is proven where the
    loss of such a step is not finite, or where most steps are like that. A program that now and
    then has no targets and goes on with a finite loss is not blamed.

How to fix
    Leave such batches out, or find out why all labels are masked: a template that does not match,
    texts that are too short after the prompt, a truncation that cuts the answer away.

When this verdict is wrong
    When a program leaves empty batches out by itself after the loss was taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from lossleuth.causes.lessons import has_labels
from lossleuth.causes.reasoning import first_place, share
from lossleuth.findings.data import Alignment, TargetLines
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested
from lossleuth.types.observed import Step, Unfinished

MAX_EMPTY_SHARE = Limit(0.5, "largest share of steps without targets that is no fault")


def judge(evidence: Evidence) -> Judgement:
    """Count targets, step by step."""
    weightless = _weightless(evidence)
    if weightless is not None:
        return weightless
    unfinished = evidence.ending.unfinished or Unfinished()
    counted = [(step, step.supervised) for step in evidence.steps if step.supervised is not None]
    total = len(counted) + (unfinished.supervised is not None)
    if not total:
        return _by_weight(evidence) or untested("no loss with targets was seen")
    empty = [step for step, supervised in counted if supervised == 0 or _of_nothing(step)]
    micro_batches = sum(_of_nothing(step) for step, _ in counted)
    at_end = _of_nothing(unfinished)
    found = max(micro_batches, len(empty)) + at_end
    if not found:
        smallest = min((supervised for _, supervised in counted), default=0)
        return refuted(
            f"every one of {len(counted)} steps has supervised targets, {smallest} or more"
        )
    because = (
        f"{found} losses were taken over no target at all"
        + (f", the first at step {empty[0].step}" if empty else "")
        + "; a loss needs at least 1."
    )
    spoilt = _has_non_finite(step.loss for step in empty)
    if at_end:
        spoilt = spoilt or _has_non_finite(unfinished.losses)
    is_fault = spoilt or share(len(empty) + bool(at_end), total) > MAX_EMPTY_SHARE
    return Judgement(
        Status.PROVEN if is_fault else Status.BENIGN,
        because,
        _where(evidence, {step.step for step in empty}),
        Wrongness("losses over no target", float(found), 0.0, 0.0),
        remedy="Leave out batches without a supervised target; see why their labels are masked.",
    )


def _weightless(evidence: Evidence) -> Judgement | None:
    """Proven where most recorded losses have targets of which not one counts, or no rows at all."""
    known = evidence.all(Alignment)
    empty = [found for found in known if not found.supervised]
    if len(known) < 2 or share(len(empty), len(known)) <= MAX_EMPTY_SHARE:
        return None
    because = (
        f"None of {empty[-1].targets} targets has any weight in the loss on {len(empty)} of "
        f"{len(known)} recorded steps; a loss needs at least 1."
    )
    return Judgement(
        Status.PROVEN,
        because,
        first_place(lines.loss for lines in evidence.all(TargetLines)),
        Wrongness("targets that count", 0.0, float(empty[-1].targets), 0.0),
        remedy="See why the mask of the targets is empty.",
    )


def _of_nothing(step: Step | Unfinished) -> int:
    """Losses over no target, without those that add nothing: sums, where the loss is a number."""
    losses = [step.loss] if isinstance(step, Step) else step.losses
    sums = 0 if _has_non_finite(losses) else step.empty_sums or 0
    return (step.unsupervised or 0) - sums


def _by_weight(evidence: Evidence) -> Judgement | None:
    """Refuted where a loss by hand has targets that count on every recorded step."""
    known = [found.supervised for found in evidence.all(Alignment) if found.targets]
    if not known or not min(known):
        return None
    return refuted(f"{min(known)} or more targets count on each of {len(known)} recorded steps")


def _has_non_finite(losses: Iterable[float | None]) -> bool:
    return any(loss is not None and not math.isfinite(loss) for loss in losses)


def _where(evidence: Evidence, empty: set[int]) -> Where | None:
    """The line that masked the targets of a step that has none left, else the line of the loss."""
    lines = list(evidence.by_step(TargetLines))
    masked = first_place(place for step, x in lines if step in empty for place in x.filled)
    return masked or first_place(x.loss for _, x in lines)


CAUSE = Cause(
    "labels_all_masked",
    Stage.DATA,
    "a loss is taken over no target at all",
    judge,
    uses=(TargetLines, Alignment),
    limits=(MAX_EMPTY_SHARE,),
    voids_trials=True,
    relies_on=("lookups",),
    is_core=has_labels,
    by_recorded_steps=True,
)
