"""What the probe of distillation finds, by hand."""

from __future__ import annotations

from typing import Any

from evidence import seen, steps

from lossleuth.findings.distillation import TeacherQuality, Teaching
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where

MADE, COMPARED, MIXED = (Where("train.py", line) for line in (11, 12, 13))


def quality(loss: float = 2.0, **given: Any) -> TeacherQuality:
    """A teacher that fits the text, and is ahead of the student."""
    plain: dict[str, Any] = {
        "loss": loss,
        "error": 0.02,
        "tokens": 512,
        "behind": -0.5,
        "behind_error": 0.02,
        "offsets": {"-2": 6.0, "-1": 6.0, "0": loss, "1": 6.0, "2": 6.0},
        "renamed": 6.0,
        "renamed_error": 0.05,
    }
    return TeacherQuality(**{**plain, **given})


def teaching(**given: Any) -> Teaching:
    """A right distillation: half of the loss from labels, at a temperature of 2."""
    plain: dict[str, Any] = {
        "made_at": "train.py:11",
        "teacher_at": "train.py:12",
        "student_at": "train.py:12",
        "mixed_at": "train.py:13",
        "classes": 64,
        "has_labels": True,
        "student_temperature": 2.0,
        "teacher_temperature": 2.0,
        "target_share": 0.0,
        "target_parameters": (),
        "target_whole": False,
        "pull_at_goal": 1e-15,
        "pull_to_labels": 0.0,
        "weight": 2.0,
        "weight_fit": 1.0,
        "label_weight": 0.5,
        "micro_batches": 1,
        "dropout": 0.0,
        "same_input": 1.0,
        "levels": {"1": (1.0, 1.0), "2": (1.0, 1.0), "4": (1.0, 0.9), "8": (1.0, 0.8)},
        "knowledge": quality(),
    }
    return Teaching(**{**plain, **given})


def taught(count: int = 3, **given: Any) -> Evidence:
    """Recorded steps with such a teacher; guessing by frequency costs 4 nats."""
    return seen(teaching(**given), count=count, steps=steps(4, unigram=4.0))


UNTAUGHT = seen()
