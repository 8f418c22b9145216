"""The teacher is softened so far that nothing is left of what it says.

What it means
    At the temperature in use, teacher and student are both close to uniform.

Why training fails
    What is left of the difference between them is small, and is about the tail of the distribution,
    not about which token comes next.

How it is judged
    Never by the size of the loss: T² belongs there. Up to 4 it is usual. Beyond that, the same
    recorded batch is looked at again at other temperatures. With T² in front, the divergence and
    the gradient of the logits stay level as long as the temperature is no fault. Where both have
    fallen, the reference at a low temperature is tried over paired seeds: proven if the true loss
    is lower then, benign if not.

How to fix
    Lower the temperature; 1 to 4 is usual.

When this verdict is wrong
    When the tail is what is to be learnt.
"""

from __future__ import annotations

from lossleuth.causes.lessons import compared_place, lessons, without_teacher
from lossleuth.causes.reasoning import decided_by_trial
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# What is left of gradient and divergence, T² in front, against the same batch at the lower
# temperature; what has to be gained there.
LEVEL, LEVEL_DIVERGENCE, GAINED = 0.5, 0.7, 0.05
# What is tried instead; up to where softening is what everybody does, and a lower one is tuning.
USUAL, MOST = 2.0, 4.0


def judge(evidence: Evidence) -> Judgement:
    """Look at the same batch at other temperatures."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known = [f for f in lessons(evidence) if f["levels"] and f["teacher_temperature"]]
    if not known:
        return untested("the same batch could not be looked at at other temperatures")
    last = known[-1]
    heat = float(last["teacher_temperature"])
    if heat <= MOST:
        return refuted(f"the temperature is {heat:g}: up to {MOST:g} is usual")
    ratios = []
    for found in known:
        own = found["levels"].get(f"{found['teacher_temperature']:g}")
        usual = found["levels"].get(f"{USUAL:g}")
        if own and usual and all(usual):
            ratios.append((own[1] / usual[1], own[0] / usual[0]))
    if not ratios:
        return untested("nothing is asked of the student at any temperature")
    ratio, divergence = (max(values) for values in zip(*ratios, strict=True))
    low, high = last["levels"][f"{USUAL:g}"], last["levels"][f"{heat:g}"]
    told = (
        f"on the same batch, T² times the divergence is {low[0]:.3f} at {USUAL:g} and "
        f"{high[0]:.3f} at {heat:g}, T² times the gradient {low[1]:.3f} and {high[1]:.3f}"
    )
    if ratio > LEVEL or divergence > LEVEL_DIVERGENCE:
        return refuted(f"{told}: level ({ratio:.2f} and {divergence:.2f}, 1 expected)")
    fault = Judgement(
        Status.SUSPECTED,
        f"Softened by {heat:g}, little is left to follow: {told}.",
        compared_place(known),
        Wrongness(f"T² times the gradient, against temperature {USUAL:g}", ratio, 1.0, LEVEL),
        remedy="Lower the temperature.",
    )
    weight = float(last["weight"]) if (last["weight"] or 0) > 0 else 1.0
    change = Change.of("teach_by_reference", temperature=USUAL, weight=round(weight / heat**2, 4))
    return decided_by_trial(evidence, fault, [change], least=GAINED)


CAUSE = Cause(
    "temperature_too_high",
    Stage.DISTILLATION,
    "softening leaves nothing of what the teacher says",
    judge,
    ("teaching",),
    overlaps=("temperature_unscaled",),
)
