"""A hand-written backward is not the derivative of its forward.

What it means
    A custom autograd function, a compiled kernel, a hook or gradients assigned by hand give
    something else than the derivative of what was computed.

Why training fails
    The optimizer follows a direction that the loss does not know. Often it still falls for a while,
    because some layers are right.

How it is judged
    The gradient that the program got is compared with that of the same step replayed in float64
    through the operations that really ran; rounding is known from the replay in the recorded types.
    Functions that compute outside torch are judged by finite differences. The function, hook or
    parameter that departs is named. Whether it matters is tried: the same run with true gradients,
    by torch through the forward of the functions at fault, else through the whole replayed step.

How to fix
    Correct the backward; `lossleuth.check_gradient` tests it by itself.

When this verdict is wrong
    When another gradient is meant, as in straight-through estimators and reversal layers; the trial
    decides, and step functions that pass gradients on are left out.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any, NamedTuple

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS as NOTHING,
)
from lossleuth.causes.reasoning import (
    backward_place,
    decided_by_trial,
    finite,
    library_place,
    where_of,
)
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

# Times its floor, and in itself, that an error has to be.
TIMES_FLOOR, LEAST = 30.0, 1e-5
# Recorded batches on which a gradient made by hand ends higher, by how much, and how much lower
# than the mean it may end on any other.
FEWEST, SMALL, SHARE = 3, 1e-3, 0.25
CURE = Change.of("follow_true_gradient")


class Fault(NamedTuple):
    """A gradient that is not the true one: by how much, the floor of that, in words, and where."""

    error: float
    floor: float
    told: str
    where: Where | None
    # The custom function whose backward gave it, where torch can differentiate its forward.
    function: str | None = None


def judge(evidence: Evidence) -> Judgement:
    """Compare used and true gradients on every recorded step."""
    found = [f for w in evidence.windows for f in _faults(w, evidence)]
    if found:
        worst = max(found, key=lambda f: f.error)
        because = (
            f"{worst.told} differs from the true one by {worst.error:.2g} of its size "
            f"(rounding {worst.floor:.1e})."
        )
        fault = Judgement(
            Status.SUSPECTED,
            because,
            worst.where,
            Wrongness("relative error of the gradient", worst.error, 0.0, worst.floor),
            remedy="Make the backward the derivative of its forward.",
        )
        return decided_by_trial(evidence, fault, [_cure(found, evidence)])
    by_hand_alone = _without_autograd(evidence)
    if by_hand_alone is not None:
        return by_hand_alone
    truths = [t for w in evidence.windows for t in w.get("gradient_truth") or ()]
    tested = [t for t in truths if t.get("untested") is None and math.isfinite(t["error"])]
    by_hand = finite(h["error"] for w in evidence.windows for h in w.get("hand_gradients") or ())
    if tested:
        off = max(tested, key=lambda t: t["error"])
        return refuted(
            f"the gradient used is the true one: it differs by {off['error']:.1e}, rounding "
            f"alone makes {off['floor']:.1e}"
        )
    if by_hand:
        return refuted(f"the gradient made by hand is the true one within {min(by_hand):.1e}")
    reasons = [t["untested"] for t in truths if t.get("untested")]
    return untested(reasons[0] if reasons else "no finite gradient was recorded")


def _without_autograd(evidence: Evidence) -> Judgement | None:
    """Programs that work out their gradients by hand, and were replayed with both."""
    known = [w["hand_step"] for w in evidence.windows if w.get("hand_step")]
    known = [h for h in known if finite([h["error"]]) and (h["right"] or h["wrong"])]
    if not known:
        return None
    wrong = [h for h in known if h["wrong"]]
    if not wrong:
        most = max(h["error"] for h in known)
        return refuted(
            f"the gradient worked out by hand is the true one on all of {len(known)} recorded "
            f"steps: it differs by {most:.1e} in float64"
        )
    first = wrong[0]
    right = f", while {_listed(first['right'])} have theirs" if first["right"] else ""
    because = (
        f"The gradient of {_listed(first['wrong'])} that is worked out by hand differs from the "
        f"true one by {first['error']:.2g} of its size (in float64){right}."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        where_of(first["place"]),
        Wrongness("relative error of the gradient", first["error"], 0.0, first["floor"]),
        remedy="Make the backward the derivative of its forward.",
    )
    harm = _followed(wrong)
    if harm is None:
        return fault
    gaps = [h["along_own"] - h["along_true"] for h in wrong if h["along_own"] is not None]
    worse = sum(not gap <= SMALL for gap in gaps)
    better = sum(gap < -SHARE * harm.nats for gap in gaps)
    told = (
        f"{because} Followed on recorded batches, it ends higher than the true one on {worse} of "
        f"{len(gaps)}: {harm.sentence}."
    )
    # Each batch is computed exactly: several alike, and none against, are no chance.
    if worse >= FEWEST and not better and harm.nats >= NOTHING:
        return replace(fault, status=Status.PROVEN, because=told, harm=harm)
    if not worse:
        return replace(fault, status=Status.BENIGN, because=told, harm=harm)
    return replace(fault, because=told)


def _followed(wrong: list[Any]) -> Effect | None:
    """What following either gradient does to the recorded batches."""
    pairs = [
        (h["along_own"], h["along_true"], h["loss"])
        for h in wrong
        if h["along_own"] is not None and finite([h["along_true"]])
    ]
    if not pairs:
        return None
    # What diverges has learnt nothing: how far it went off says nothing more.
    own = [min(o, start) if math.isfinite(o) else start for o, _, start in pairs]
    gaps = [o - t for o, (_, t, _) in zip(own, pairs, strict=True)]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.inf
    return Effect(
        CURE,
        sum(gaps) / len(gaps),
        error,
        len(gaps),
        wrong[0]["followed"],
        sum(own) / len(own),
        statistics.fmean(t for _, t, _ in pairs),
        statistics.fmean(start for _, _, start in pairs),
        "loss of a recorded batch",
    )


def _listed(names: list[str]) -> str:
    told = ", ".join(names[:3])
    return f"{told} and {len(names) - 3} more" if len(names) > 3 else told


def _cure(faults: list[Fault], evidence: Evidence) -> Change:
    """What undoes them: the true gradient of all, or, much faster, of the functions at fault."""
    names = {fault.function for fault in faults}
    if None in names:
        return CURE
    swift = Change.of("differentiate_forward", functions=",".join(sorted(map(str, names))))
    return CURE if swift in evidence.failed else swift


def _faults(window: Any, evidence: Evidence) -> list[Fault]:
    """Errors of this step, those of single functions first: they are nearest to the fault."""
    found: list[Fault] = []
    for function in window.get("functions") or ():
        if function.get("straight_through") or function.get("untested") is not None:
            continue
        if _is_wrong(function["error"], function["floor"]):
            where: Where | None = Where(function["file"], function["line"])
            outside = library_place(evidence)
            if outside is not None:
                where = outside._replace(module=function["name"])
            told = f"The gradient that the backward of {function['name']} gives"
            swift = function["name"] if outside is None else None
            found.append(Fault(function["error"], function["floor"], told, where, swift))
    if found:
        return found
    for hook in window.get("hooks") or ():
        if hook.get("error") is not None and _is_wrong(hook["error"], hook["floor"]):
            told = f"The gradient of {hook['tensor']} after its hooks"
            found.append(Fault(hook["error"], hook["floor"], told, where_of(hook["places"][0])))
    if found:
        return found
    for truth in window.get("gradient_truth") or ():
        if truth.get("untested") is None and _is_wrong(truth["error"], truth["floor"]):
            most = max(truth["parameters"], key=lambda p: p["error"], default=None)
            name = f" (most of all that of {most['name']})" if most else ""
            told = f"The gradient that the program got{name}"
            found.append(Fault(truth["error"], truth["floor"], told, backward_place(evidence)))
    best = min(window.get("hand_gradients") or (), key=lambda h: h["error"], default=None)
    if best is not None and _is_wrong(best["error"], best["floor"]):
        told = "The gradient made by hand"
        found.append(Fault(best["error"], best["floor"], told, where_of(best.get("place"))))
    return found


def _is_wrong(error: float, floor: float) -> bool:
    return error > LEAST and error > TIMES_FLOOR * floor


CAUSE = Cause(
    "wrong_backward",
    Stage.GRADIENT,
    "a hand-written backward is not the derivative of its forward",
    judge,
    ("gradient_truth", "functions", "hooks", "hand_gradients", "hand_step"),
    overlaps=("graph_cut", "gradient_wiped"),
)
