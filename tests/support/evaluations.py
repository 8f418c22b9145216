"""Evaluations by hand, in the shape that the probe gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lossleuth.findings.data import Alignment
from lossleuth.findings.evaluation import Evaluation, Metric, MetricValue
from lossleuth.findings.finding import Finding
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.evidence import Evidence, SeenEvaluation
from lossleuth.types.judgement import Where
from lossleuth.types.observed import PrintedNumber

PLACE = "train.py:30"
READ = Where("train.py", 30)
ALIGNED = Alignment(offset=1, shares={1: 1.0}, supervised=400, targets=400)


def number(value: float, count: int = 100, **fields: Any) -> MetricValue:
    """A mean over the tokens of one batch, with nothing wrong in it."""
    plain: dict[str, Any] = {
        "value": value,
        "batches": (0,),
        "texts": 8,
        "count": count,
        "kind": "mean",
        "mean": value,
        "evenly": value,
        "by_batch": value,
        "by_text": value,
        "unpadded": value,
        "undropped": value,
        "aligned": value,
        "true": value,
        "offset": 1,
        "explained": 1.0,
        "next_explained": 1.0,
        "floor": 1e-7,
    }
    return MetricValue(**plain | fields)


def metric(*numbers: MetricValue, place: str = PLACE, read: bool = True) -> Metric:
    return Metric(place, read, list(numbers))


def printed(value: float, half: float = 5e-5, digits: int = 5, line: int = 0) -> PrintedNumber:
    return PrintedNumber(value, half, digits, line)


def evaluation(
    metrics: list[Metric],
    *numbers: PrintedNumber,
    step: int = 50,
    true: float | None = 2.0,
    **fields: Any,
) -> SeenEvaluation:
    """An evaluation of two batches before a step, with the numbers printed of it."""
    measured = Evaluation(batches=2, true=true, count=400, metrics=metrics, **fields)
    return SeenEvaluation(step, measured, numbers)


def seen(*evaluations: SeenEvaluation, found: Sequence[Finding] = (ALIGNED,)) -> Evidence:
    """Evaluations of a run; by default its loss compares with the next token."""
    return Evidence(evaluations=evaluations, recorded=[RecordedStep(1, found)])
