"""What judges of distillation share: which recorded steps have a teacher, and how good it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeGuard

from lossleuth.causes.reasoning import first_place, unigram
from lossleuth.findings.distillation import TeacherQuality, Teaching
from lossleuth.findings.finding import name_of
from lossleuth.types.cause import Limit, missing
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Where, refuted, untested

MIN_LOSS_GAP = Limit(
    0.1, "least difference of two losses, in nats, that counts on top of its standard errors"
)
STANDARD_ERRORS = Limit(3, "standard errors within which two losses count as equal")
MAX_TEMPERATURE_GAP = Limit(
    1e-3, "largest relative difference of two temperatures that count as the same"
)
MIN_SQUARED_TEMPERATURE = Limit(1.4, "lowest temperature at which a missing T² matters")
MAX_DISTANCE_FROM_ONE = Limit(
    0.12,
    "largest distance from 1 of weights, or of their sum, that count as 1; label smoothing "
    "changes them that much",
)
MIN_WEIGHT_FIT = Limit(
    0.999, "least cosine between the gradient and that of a divergence whose weight is measured"
)
MIN_RELATIVE_WEIGHT = Limit(
    0.05, "least weight of the divergence, as a share of that of the labels, that is no fault"
)
MAX_RELATIVE_WEIGHT = Limit(
    20, "largest weight of the divergence, T² apart, as a multiple of that of the labels"
)


@dataclass(frozen=True)
class Weights:
    """What multiplies the divergence and the cross-entropy of a position."""

    divergence: float
    labels: float
    # What belongs to them: the teacher's temperature, the classes, the backward passes of a step.
    temperature: float
    classes: int
    micro_batches: int = 1


def is_known(number: float | None) -> TypeGuard[float]:
    """Whether a number was measured."""
    return number is not None and not math.isnan(number)


def without_teacher(evidence: Evidence) -> Judgement | None:
    """The judgement of a run without a teacher; None where there is one."""
    if evidence.all(Teaching):
        return None
    errors = evidence.errors(name_of(Teaching))
    if errors or evidence.reasons(Teaching) or not evidence.recorded:
        # Whether there is a teacher is not known.
        return untested(missing(Teaching, evidence))
    return refuted(
        f"no other model's scores enter the loss: 0 of {len(evidence.recorded)} recorded steps "
        "have a teacher"
    )


def qualities(evidence: Evidence) -> list[TeacherQuality]:
    """How good the teacher is, step by step, where that was measured."""
    found = [teaching.knowledge for teaching in evidence.all(Teaching)]
    return [quality for quality in found if quality is not None and is_known(quality.loss)]


def unknown_quality(evidence: Evidence) -> Judgement:
    """The judgement where the teacher's own loss is not known."""
    reasons = [t.incomparable for t in evidence.all(Teaching) if t.incomparable]
    return untested(reasons[0] if reasons else "the teacher's loss on the targets is not known")


def teacher_place(teachings: Sequence[Teaching]) -> Where | None:
    """Where the teacher's scores are computed, else where they are compared."""
    return first_place([t.made_at for t in teachings] + [t.teacher_at for t in teachings])


def compared_place(teachings: Sequence[Teaching]) -> Where | None:
    """Where the comparison takes up the scores."""
    return first_place([t.student_at for t in teachings] + [t.teacher_at for t in teachings])


def mixed_place(teachings: Sequence[Teaching]) -> Where | None:
    """Where distillation loss and label loss are added up, else where the scores are compared."""
    return first_place(t.mixed_at for t in teachings) or compared_place(teachings)


def guessing_loss(evidence: Evidence) -> float | None:
    """The loss of guessing each token by its frequency."""
    return unigram(evidence) or evidence.floors.unigram


def better_match(quality: TeacherQuality, guessed: float) -> Literal["offset", "renamed"] | None:
    """How the teacher would fit the targets clearly better: at another offset, or renamed."""
    offsets = {int(offset): loss for offset, loss in quality.offsets.items()}
    if offsets:
        best = min(offsets, key=lambda offset: offsets[offset])
        margin = MIN_LOSS_GAP + STANDARD_ERRORS * quality.error
        if best != 0 and offsets[best] < min(offsets.get(0, 0.0), guessed) - margin:
            return "offset"
    if quality.renamed is not None and quality.renamed_error is not None:
        margin = MIN_LOSS_GAP + STANDARD_ERRORS * quality.renamed_error
        if quality.renamed < min(quality.loss, guessed) - margin:
            return "renamed"
    return None


def weights(teaching: Teaching) -> Weights | None:
    """The weights of a position; None where they could not be measured."""
    divergence, labels = teaching.weight, teaching.label_weight
    temperature, fit = teaching.teacher_temperature, teaching.weight_fit or 0.0
    if not divergence or not labels or not temperature:
        return None
    if not fit > MIN_WEIGHT_FIT or not is_known(labels):
        return None
    return Weights(divergence, labels, temperature, teaching.classes, teaching.micro_batches)


def lacks_square(found: Weights) -> bool:
    """Whether the weights leave no room for the square of the temperature.

    They add up to 1, or are both 1, for each of several backward passes if there are such.
    """
    if not found.divergence or found.temperature < MIN_SQUARED_TEMPERATURE:
        return False
    for parts in {1, found.micro_batches}:
        divergence, labels = parts * found.divergence, parts * found.labels
        if all(abs(weight - 1) < MAX_DISTANCE_FROM_ONE for weight in (divergence, labels)):
            return True
        if abs(divergence + labels - 1) < MAX_DISTANCE_FROM_ONE:
            return True
    return False


def is_divided_by_classes(found: Weights) -> bool:
    """Whether the divergence has a usual weight, but divided by the number of classes."""
    relative = found.divergence * found.classes / found.labels
    return (
        found.divergence < MIN_RELATIVE_WEIGHT * found.labels
        and MIN_RELATIVE_WEIGHT <= relative <= MAX_RELATIVE_WEIGHT * found.temperature**2
    )


def has_labels(evidence: Evidence) -> bool:
    """Whether targets are labels: what a teacher says stands beside the input without an offset."""
    return all(teaching.has_labels for teaching in evidence.all(Teaching))
