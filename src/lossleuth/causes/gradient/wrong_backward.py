"""A hand-written backward is not the derivative of its forward.

What it means
    A custom autograd function, a compiled kernel, a hook or gradients assigned by hand give
    something else than the derivative of what was computed.

Why training fails
    The optimizer follows a direction that is not the gradient of the loss. Often the loss still
    falls for a while, because some layers are right.

How it is judged
    The gradient that the program got is compared with that of the same step replayed in float64
    through the operations that really ran; rounding is known from the replay in the recorded types.
    Functions that compute outside torch are run again on other inputs: their backward is compared
    with differences of their values, along a random direction, along each input, along the ends of
    each axis and along rows, and where the backward gives something for results that no input
    moves. A difference that is above its bound and not beyond doubt leaves it untested. The
    function, hook or parameter that differs is named. Whether it matters is tried: the same run
    with true gradients, by torch through the forward of the functions at fault, or by their values,
    else through the whole replayed step.

How to fix
    Correct the backward; `lossleuth.check_gradient` tests it by itself.

When this verdict is wrong
    When another gradient is meant, as in straight-through estimators and reversal layers; the trial
    decides, and step functions that pass gradients on are left out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    backward_place,
    decided_by_trial,
    finite,
    first_place,
    library_place,
    where_of,
)
from lossleuth.findings.gradient import BackwardHook, CustomFunction, GradientTruth
from lossleuth.findings.no_autograd import HandGradient, HandStep
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.cause import Cause, Limit, always, missing
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

MIN_ERROR = Limit(1e-5, "least relative error of a wrong gradient")
MIN_TIMES_FLOOR = Limit(30, "least error of a wrong gradient, in multiples of rounding")
MIN_WORSE_BATCHES = Limit(
    3, "fewest recorded batches that end higher along a gradient worked out by hand"
)
MIN_GAP_NATS = Limit(1e-3, "least difference, in nats, of a batch that ends higher")
MAX_BETTER_SHARE = Limit(
    0.25, "largest share of the mean harm by which any other batch may end lower"
)
CURE = Change.of("follow_true_gradient")
REMEDY = "Make the backward the derivative of its forward."


class Fault(NamedTuple):
    """A gradient that is not the true one: by how much, the floor of that, which, and where."""

    error: float
    floor: float
    # The gradient in words, as a subject.
    gradient: str
    where: Where | None
    # The custom function whose backward gave it, where its forward can be differentiated; and
    # whether that takes its values, since torch cannot do it.
    function: str | None = None
    outside: bool = False


def judge(evidence: Evidence) -> Judgement:
    """Compare used and true gradients on every recorded step."""
    found = [fault for step in evidence.recorded for fault in _faults(step, evidence)]
    if found:
        worst = max(found, key=lambda f: f.error)
        because = (
            f"{worst.gradient} differs from the true one by {worst.error:.2g} of its size "
            f"(rounding {worst.floor:.1e})."
        )
        fault = Judgement(
            Status.SUSPECTED,
            because,
            worst.where,
            Wrongness("relative error of the gradient", worst.error, 0.0, worst.floor),
            remedy=REMEDY,
        )
        return decided_by_trial(evidence, fault, [_cure(found, evidence)])
    by_hand_alone = _without_autograd(evidence)
    if by_hand_alone is not None:
        return by_hand_alone
    doubtful = _in_doubt(evidence)
    if doubtful is not None:
        return doubtful
    truths = evidence.all(GradientTruth)
    tested = [truth for truth in truths if math.isfinite(truth.error)]
    if tested:
        off = max(tested, key=lambda truth: truth.error)
        return refuted(
            f"the gradient used is the true one: it differs by {off.error:.1e}, rounding "
            f"alone makes {off.floor:.1e}"
        )
    by_hand = finite(hand.error for hand in evidence.all(HandGradient))
    if by_hand:
        return refuted(f"the gradient made by hand is the true one within {min(by_hand):.1e}")
    if truths:
        return untested("no finite gradient was recorded")
    return untested(missing(GradientTruth, evidence))


def _in_doubt(evidence: Evidence) -> Judgement | None:
    """A function whose values speak against its backward, but not beyond doubt.

    What is behind it is not measured, so that the gradient of the rest does not speak for it.
    """
    found = [
        function
        for function in evidence.all(CustomFunction)
        if function.outside and function.error > max(function.floor, MIN_ERROR)
    ]
    if not found:
        return None
    most = max(found, key=lambda function: function.error / (function.floor or 1.0))
    return untested(
        f"the gradient that the backward of {most.name} gives differs from differences of its "
        f"values by {most.error:.1e}, and these are sure only to {most.floor:.1e}"
    )


def _without_autograd(evidence: Evidence) -> Judgement | None:
    """Programs that work out their gradients by hand, and were replayed with both."""
    known = [
        hand
        for hand in evidence.all(HandStep)
        if math.isfinite(hand.error) and (hand.right or hand.wrong)
    ]
    if not known:
        return None
    wrong = [hand for hand in known if hand.wrong]
    if not wrong:
        most = max(hand.error for hand in known)
        return refuted(
            f"the gradient worked out by hand is the true one on all of {len(known)} recorded "
            f"steps: it differs by {most:.1e} in float64"
        )
    first = wrong[0]
    right = f", while {_listed(first.right)} have theirs" if first.right else ""
    because = (
        f"The gradient of {_listed(first.wrong)} that is worked out by hand differs from the "
        f"true one by {first.error:.2g} of its size (in float64){right}."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        where_of(first.place),
        Wrongness("relative error of the gradient", first.error, 0.0, first.floor),
        remedy=REMEDY,
    )
    return _decided_on_batches(fault, wrong)


def _decided_on_batches(fault: Judgement, wrong: Sequence[HandStep]) -> Judgement:
    """Proven if the recorded batches end higher along it than along the true gradient."""
    harm = _followed(wrong)
    if harm is None:
        return fault
    gaps = [
        hand.along_own - hand.along_true
        for hand in wrong
        if hand.along_own is not None and hand.along_true is not None
    ]
    worse = sum(not gap <= MIN_GAP_NATS for gap in gaps)
    better = sum(gap < -MAX_BETTER_SHARE * harm.nats for gap in gaps)
    because = (
        f"{fault.because} Followed on recorded batches, it ends higher than the true one on "
        f"{worse} of {len(gaps)}: {harm.sentence}."
    )
    # Each batch is computed exactly: several alike, and none against, are no chance.
    if worse >= MIN_WORSE_BATCHES and not better and harm.nats >= MIN_EFFECT_NATS:
        return replace(fault, status=Status.PROVEN, because=because, harm=harm)
    if not worse:
        return replace(fault, status=Status.BENIGN, because=because, harm=harm)
    return replace(fault, because=because)


def _followed(wrong: Sequence[HandStep]) -> Effect | None:
    """What following either gradient does to the recorded batches."""
    pairs = [
        (hand.along_own, hand.along_true, hand.loss)
        for hand in wrong
        if hand.along_own is not None
        and hand.along_true is not None
        and math.isfinite(hand.along_true)
    ]
    if not pairs:
        return None
    # What diverges has learnt nothing: how far it went off says nothing more.
    own = [min(o, start) if math.isfinite(o) else start for o, _, start in pairs]
    gaps = [o - t for o, (_, t, _) in zip(own, pairs, strict=True)]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.inf
    return Effect(
        change=CURE,
        nats=sum(gaps) / len(gaps),
        error=error,
        seeds=len(gaps),
        steps=wrong[0].followed,
        without=sum(own) / len(own),
        with_change=statistics.fmean(t for _, t, _ in pairs),
        start=statistics.fmean(start for _, _, start in pairs),
        measure="loss of a recorded batch",
    )


def _listed(names: Sequence[str]) -> str:
    """The first three, and how many more there are."""
    listed = ", ".join(names[:3])
    return f"{listed} and {len(names) - 3} more" if len(names) > 3 else listed


def _cure(faults: Sequence[Fault], evidence: Evidence) -> Change:
    """What undoes them: the true gradient of all, or, much faster, of the functions at fault."""
    names = sorted({fault.function for fault in faults if fault.function is not None})
    if any(fault.outside for fault in faults):
        # A replay could not differentiate them either.
        return Change.of("measure_backward", functions=",".join(names))
    if any(fault.function is None for fault in faults):
        return CURE
    faster = Change.of("differentiate_forward", functions=",".join(names))
    return CURE if faster in evidence.failed else faster


def _faults(step: RecordedStep, evidence: Evidence) -> list[Fault]:
    """Errors of this step, those of single functions first: they are nearest to the fault."""
    return (
        _wrong_functions(step, library_place(evidence))
        or _wrong_hooks(step)
        or _wrong_gradients(step, backward_place(evidence))
    )


def _wrong_functions(step: RecordedStep, library: Where | None) -> list[Fault]:
    found = []
    for function in step.all(CustomFunction):
        if function.straight_through or not _is_wrong(function.error, function.floor):
            continue
        part = "" if function.part is None else f" for {function.part}"
        gradient = f"The gradient that the backward of {function.name} gives{part}"
        place = library if function.library is None else Where(function.library)
        where = Where(function.file, function.line)
        if place is not None:
            where = place._replace(module=function.name)
        # What a replay can differentiate in place of a library needs no name.
        name = function.name if place is None or function.outside else None
        fault = Fault(function.error, function.floor, gradient, where, name, function.outside)
        found.append(fault)
    return found


def _wrong_hooks(step: RecordedStep) -> list[Fault]:
    return [
        Fault(
            hook.error,
            hook.floor,
            f"The gradient of {hook.tensor} after its hooks",
            first_place(hook.places),
        )
        for hook in step.all(BackwardHook)
        if hook.error is not None and hook.floor is not None and _is_wrong(hook.error, hook.floor)
    ]


def _wrong_gradients(step: RecordedStep, backward: Where | None) -> list[Fault]:
    """Of whole backward passes, and of what was made by hand instead of one."""
    found = []
    for truth in step.all(GradientTruth):
        if _is_wrong(truth.error, truth.floor):
            most = max(truth.parameters, key=lambda p: p.error, default=None)
            name = f" (most of all that of {most.name})" if most else ""
            gradient = f"The gradient that the program got{name}"
            found.append(Fault(truth.error, truth.floor, gradient, backward))
    best = min(step.all(HandGradient), key=lambda hand: hand.error, default=None)
    if best is not None and _is_wrong(best.error, best.floor):
        gradient = "The gradient made by hand"
        found.append(Fault(best.error, best.floor, gradient, where_of(best.place)))
    return found


def _is_wrong(error: float, floor: float) -> bool:
    return error > MIN_ERROR and error > MIN_TIMES_FLOOR * floor


CAUSE = Cause(
    "wrong_backward",
    Stage.GRADIENT,
    "a hand-written backward is not the derivative of its forward",
    judge,
    uses=(GradientTruth, CustomFunction, BackwardHook, HandGradient, HandStep),
    limits=(
        MIN_ERROR,
        MIN_TIMES_FLOOR,
        MIN_WORSE_BATCHES,
        MIN_GAP_NATS,
        MAX_BETTER_SHARE,
        MIN_EFFECT_NATS,
    ),
    overlaps=("graph_cut", "gradient_wiped"),
    is_core=always,
    by_recorded_steps=True,
)
