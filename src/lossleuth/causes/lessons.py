"""What judges of distillation share: which recorded steps have a teacher, and what it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lossleuth.causes.reasoning import first_place, unigram
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Where, refuted, untested

Taught = Mapping[str, Any]
# Nats that a difference between losses has to be, whatever its standard error.
NOTABLE = 0.1
# Temperatures below this one need no factor; weights that add up to 1, smoothing included.
SOFT, ADDS_UP = 1.4, 0.12
# How well a gradient has to fit that of a divergence to have a weight; what weighs too little.
FITS, TOO_LITTLE = 0.999, 0.05


def lessons(evidence: Evidence) -> list[Taught]:
    """What was measured of the teacher, on each recorded step that has one."""
    return [found for found in evidence.probed("teaching") if found]


def without_teacher(evidence: Evidence) -> Judgement | None:
    """The judgement where nobody teaches; None where somebody does."""
    if lessons(evidence):
        return None
    if not evidence.windows:
        return untested("no step was recorded")
    return refuted(
        f"no other model's scores enter the loss: 0 of {len(evidence.windows)} recorded steps "
        "have a teacher"
    )


def knowledge(evidence: Evidence) -> list[Mapping[str, Any]]:
    """What the teacher knows, step by step, where it could be measured."""
    return [found["knowledge"] for found in lessons(evidence) if found.get("knowledge")]


def no_knowledge(evidence: Evidence) -> Judgement:
    """The judgement where the teacher's own loss is not known."""
    reasons = [found["untested"] for found in lessons(evidence) if found.get("untested")]
    return untested(reasons[0] if reasons else "the teacher's loss on the targets is not known")


def made_place(found: Sequence[Taught]) -> Where | None:
    """Where the teacher's scores are made, else where they are compared."""
    return first_place([f.get("made_at") for f in found] + [f.get("teacher_at") for f in found])


def compared_place(found: Sequence[Taught]) -> Where | None:
    """Where the scores are taken up by the comparison."""
    return first_place([f.get("student_at") for f in found] + [f.get("teacher_at") for f in found])


def mixed_place(found: Sequence[Taught]) -> Where | None:
    """Where lesson and labels are added up, else where the lesson begins."""
    return first_place(f.get("mixed_at") for f in found) or compared_place(found)


def guess(evidence: Evidence) -> float | None:
    """The loss of somebody who knows how frequent each token is, and nothing else."""
    return unigram(evidence) or evidence.floors.get("unigram")


def knows_otherwise(known: Mapping[str, Any], guessed: float) -> str | None:
    """Where a teacher's knowledge is, if not where it is asked for: at an offset, or renamed."""
    offsets = {int(k): float(v) for k, v in known["offsets"].items()}
    if offsets:
        best = min(offsets, key=lambda k: offsets[k])
        clear = offsets[best] < min(offsets.get(0, 0.0), guessed) - NOTABLE - 3 * known["error"]
        if best != 0 and clear:
            return "offset"
    if known["renamed"] is not None:
        error = 3 * known["renamed_error"]
        if known["renamed"] < min(known["loss"], guessed) - NOTABLE - error:
            return "renamed"
    return None


def lacks_square(found: Taught) -> bool:
    """Whether the weights of teacher and labels leave no room for the square of a temperature.

    They add up to 1, or are both 1, for each of several backward passes if there are such.
    """
    if (found["teacher_temperature"] or 1.0) < SOFT or not is_weighed(found):
        return False
    for parts in {1, found.get("micro_batches", 1)}:
        weight, labels = parts * float(found["weight"]), parts * float(found["label_weight"])
        both = abs(weight - 1) < ADDS_UP and abs(labels - 1) < ADDS_UP
        if both or abs(weight + labels - 1) < ADDS_UP:
            return True
    return False


def is_divided_by_classes(found: Taught) -> bool:
    """Whether a position's divergence weighs what people give it, over the number of classes."""
    if not is_weighed(found):
        return False
    weight, labels = float(found["weight"]), float(found["label_weight"])
    heat = float(found["teacher_temperature"])
    per_class = weight * found["classes"] / labels
    return weight < TOO_LITTLE * labels and TOO_LITTLE <= per_class <= 20 * heat**2


def is_weighed(found: Taught) -> bool:
    """Whether it is known what multiplies the divergence and the cross-entropy of a position."""
    fits = (found["weight_fit"] or 0.0) > FITS
    known = found["weight"] and found["label_weight"] and found["teacher_temperature"]
    return bool(known and fits)
