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
    parameter that departs is named. Whether it matters is tried: the same run with true gradients.

How to fix
    Correct the backward; `lossleuth.check_gradient` tests it by itself.

When this verdict is wrong
    When another gradient is meant, as in straight-through estimators and reversal layers; the trial
    decides, and step functions that pass gradients on are left out.
"""

from __future__ import annotations

import math
from typing import Any

from lossleuth.causes.reasoning import (
    backward_place,
    decided_by_trial,
    finite,
    library_place,
    where_of,
)
from lossleuth.types import (
    Cause,
    Change,
    Evidence,
    Judgement,
    Stage,
    Status,
    Where,
    Wrongness,
    refuted,
    untested,
)

# Times its floor, and in itself, that an error has to be.
TIMES_FLOOR, LEAST = 30.0, 1e-5
CURE = Change.of("follow_true_gradient")


def judge(evidence: Evidence) -> Judgement:
    """Compare used and true gradients on every recorded step."""
    found = [f for w in evidence.windows for f in _faults(w, evidence)]
    if found:
        error, floor, told, where = max(found, key=lambda f: f[0])
        because = (
            f"{told} differs from the true one by {error:.2g} of its size (rounding {floor:.1e})."
        )
        fault = Judgement(
            Status.SUSPECTED,
            because,
            where,
            Wrongness("relative error of the gradient", error, 0.0, floor),
            remedy="Make the backward the derivative of its forward.",
        )
        return decided_by_trial(evidence, fault, [CURE])
    truths = [t for w in evidence.windows for t in w.get("gradient_truth") or ()]
    tested = [t for t in truths if t.get("untested") is None and math.isfinite(t["error"])]
    by_hand = finite(h["error"] for w in evidence.windows for h in w.get("hand_gradients") or ())
    if tested:
        worst = max(tested, key=lambda t: t["error"])
        return refuted(
            f"the gradient used is the true one: it differs by {worst['error']:.1e}, rounding "
            f"alone makes {worst['floor']:.1e}"
        )
    if by_hand:
        return refuted(f"the gradient made by hand is the true one within {min(by_hand):.1e}")
    reasons = [t["untested"] for t in truths if t.get("untested")]
    return untested(reasons[0] if reasons else "no finite gradient was recorded")


def _faults(window: Any, evidence: Evidence) -> list[tuple[float, float, str, Where | None]]:
    """Errors of this step, those of single functions first: they are nearest to the fault."""
    found: list[tuple[float, float, str, Where | None]] = []
    for function in window.get("functions") or ():
        if function.get("straight_through") or function.get("untested") is not None:
            continue
        if _is_wrong(function["error"], function["floor"]):
            where: Where | None = Where(function["file"], function["line"])
            outside = library_place(evidence)
            if outside is not None:
                where = outside._replace(module=function["name"])
            told = f"The gradient that the backward of {function['name']} gives"
            found.append((function["error"], function["floor"], told, where))
    if found:
        return found
    for hook in window.get("hooks") or ():
        if hook.get("error") is not None and _is_wrong(hook["error"], hook["floor"]):
            told = f"The gradient of {hook['tensor']} after its hooks"
            found.append((hook["error"], hook["floor"], told, where_of(hook["places"][0])))
    if found:
        return found
    for truth in window.get("gradient_truth") or ():
        if truth.get("untested") is None and _is_wrong(truth["error"], truth["floor"]):
            worst = max(truth["parameters"], key=lambda p: p["error"], default=None)
            name = f" (most of all that of {worst['name']})" if worst else ""
            told = f"The gradient that the program got{name}"
            found.append((truth["error"], truth["floor"], told, backward_place(evidence)))
    best = min(window.get("hand_gradients") or (), key=lambda h: h["error"], default=None)
    if best is not None and _is_wrong(best["error"], best["floor"]):
        told = "The gradient made by hand"
        found.append((best["error"], best["floor"], told, where_of(best.get("place"))))
    return found


def _is_wrong(error: float, floor: float) -> bool:
    return error > LEAST and error > TIMES_FLOOR * floor


CAUSE = Cause(
    "wrong_backward",
    Stage.GRADIENT,
    "a hand-written backward is not the derivative of its forward",
    judge,
    ("gradient_truth", "functions", "hooks", "hand_gradients"),
    overlaps=("graph_cut", "gradient_wiped"),
)
