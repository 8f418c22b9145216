"""Findings about teacher and student."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.findings.finding import Finding


@dataclass(frozen=True)
class TeacherQuality:
    """A teacher's true loss in nats per token, beside the student's on the same tokens."""

    loss: float
    error: float
    tokens: int
    # How far it is behind the student, token by token, and the standard error of that.
    behind: float
    behind_error: float
    # Its loss with its rows shifted by an offset.
    offsets: dict[str, float]
    # Its loss on half of the tokens, with its classes renamed as fits the other half best.
    renamed: float | None
    renamed_error: float | None


@dataclass(frozen=True)
class Teaching(Finding):
    """A lesson in numbers; None where something could not be had."""

    # Where the teacher's logits are computed, and where each side enters the comparison.
    made_at: str | None
    teacher_at: str | None
    student_at: str | None
    # Where the teacher loss is added to the loss of the labels.
    mixed_at: str | None
    classes: int
    # Whether the student has labels too.
    has_labels: bool
    student_temperature: float | None
    teacher_temperature: float | None
    # Share of the squared gradient that goes into what only the target is made of, and into what.
    target_share: float
    target_parameters: tuple[str, ...]
    # Whether that is all that the target is made of, and nothing in it is fixed.
    target_whole: bool
    # What the lesson asks for where the student already says what the teacher says, against what
    # it asks for now; and how much of that is a pull towards the labels.
    pull_at_goal: float | None
    pull_to_labels: float | None
    # What multiplies the divergence of a position, and the cross-entropy of one; how well the first
    # fits.
    weight: float | None
    weight_fit: float | None
    label_weight: float | None
    micro_batches: int
    # Divergence in nats between the teacher with and without dropout.
    dropout: float | None
    # Share of the tokens that teacher and student both see at the same place.
    same_input: float | None
    # T² times the divergence, and T² times the length of its gradient, by temperature.
    levels: dict[str, tuple[float, float]]
    knowledge: TeacherQuality | None = None
    # What it would know of the student's own input.
    with_same_input: TeacherQuality | None = None
    # Why scores of teacher and student cannot be compared; what needs both is then unknown.
    incomparable: str | None = None
