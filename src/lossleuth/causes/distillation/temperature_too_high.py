"""The temperature is so high that nothing of the teacher's predictions is left.

What it means
    At the temperature in use, the distributions of teacher and student are both close to uniform.

Why training fails
    What is left of the difference between them is small, and is about the tail of the distribution,
    not about which token comes next.

How it is judged
    Never by the size of the loss: T² belongs there. Up to 4 a temperature is usual. Above that, the
    same recorded batch is compared at other temperatures. Multiplied by T², the divergence and the
    gradient of the logits stay level while the temperature is no fault. Where both have fallen, the
    reference divergence at a low temperature is tried over paired seeds: proven if the true loss is
    lower then, benign if not.

How to fix
    Lower the temperature; 1 to 4 is usual.

When this verdict is wrong
    When the tail of the distribution is what the student should learn.
"""

from __future__ import annotations

import math

from lossleuth.causes.lessons import compared_place, without_teacher
from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial
from lossleuth.findings.distillation import Teaching
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MAX_USUAL_TEMPERATURE = Limit(
    4,
    "highest temperature that is never blamed",
    "docs/log.md, 2026-11-16: a temperature of 4 was blamed wrongly",
)
LOW_TEMPERATURE = Limit(2, "temperature that the batch is compared at, and that is tried instead")
MAX_GRADIENT_LEFT = Limit(
    0.5,
    "largest share of T² times the gradient at the low temperature that is left",
    "docs/log.md, 2026-11-16: it has halved at a temperature of 50, which harms in the lab",
)
MAX_DIVERGENCE_LEFT = Limit(
    0.7, "largest share of T² times the divergence at the low temperature that is left"
)


def judge(evidence: Evidence) -> Judgement:
    """Compare the same batch at other temperatures."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known = [
        (t, t.teacher_temperature)
        for t in evidence.all(Teaching)
        if t.levels and t.teacher_temperature
    ]
    if not known:
        return untested("the same batch could not be compared at other temperatures")
    last, temperature = known[-1]
    if temperature <= MAX_USUAL_TEMPERATURE:
        return refuted(
            f"the temperature is {temperature:g}: up to {MAX_USUAL_TEMPERATURE:g} is usual"
        )
    pairs = [pair for teaching, own in known if (pair := _levels(teaching, own)) is not None]
    if not pairs:
        return untested("the distillation loss has no gradient at any temperature")
    # Of all steps together: where the student says what the teacher says, nothing is left at any
    # temperature, and shares of that mean nothing.
    low, high = (tuple(map(sum, zip(*levels, strict=True))) for levels in zip(*pairs, strict=True))
    divergence, gradient = (own / usual for own, usual in zip(high, low, strict=True))
    levels = (
        f"on the same {_batches(len(pairs))}, T² times the divergence is {low[0]:.3f} at "
        f"{LOW_TEMPERATURE:g} and "
        f"{high[0]:.3f} at {temperature:g}, T² times the gradient {low[1]:.3f} and {high[1]:.3f}"
    )
    if gradient > MAX_GRADIENT_LEFT or divergence > MAX_DIVERGENCE_LEFT:
        return refuted(f"{levels}: level ({gradient:.2f} and {divergence:.2f}, 1 expected)")
    what = f"T² times the gradient, against temperature {LOW_TEMPERATURE:g}"
    fault = Judgement(
        Status.SUSPECTED,
        f"At a temperature of {temperature:g} little is left to learn from: {levels}.",
        compared_place([teaching for teaching, _ in known]),
        Wrongness(what, gradient, 1.0, float(MAX_GRADIENT_LEFT)),
        remedy="Lower the temperature.",
    )
    weight = last.weight if last.weight and last.weight > 0 else 1.0
    change = Change.of(
        "teach_by_reference",
        temperature=float(LOW_TEMPERATURE),
        weight=round(weight / temperature**2, 4),
    )
    return decided_by_trial(evidence, fault, [change])


def _levels(
    teaching: Teaching, temperature: float
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Divergence and gradient of a step at the low temperature, and at its own."""
    own = teaching.levels.get(f"{temperature:g}")
    low = teaching.levels.get(f"{LOW_TEMPERATURE:g}")
    if own is None or low is None or not all(low):
        return None
    return (low, own) if math.isfinite(sum((*own, *low))) else None


def _batches(count: int) -> str:
    return "batch" if count == 1 else f"{count} batches together"


CAUSE = Cause(
    "temperature_too_high",
    Stage.DISTILLATION,
    "the temperature leaves nothing of the teacher's predictions",
    judge,
    uses=(Teaching,),
    limits=(
        MAX_USUAL_TEMPERATURE,
        LOW_TEMPERATURE,
        MAX_GRADIENT_LEFT,
        MAX_DIVERGENCE_LEFT,
        MIN_EFFECT_NATS,
    ),
    overlaps=("temperature_unscaled",),
)
