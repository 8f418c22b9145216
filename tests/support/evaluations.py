"""Evaluations by hand, in the shape that the probe gives them."""

from __future__ import annotations

from typing import Any

from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where

PLACE = "train.py:30"
READ = Where("train.py", 30)
ALIGNED = {"untested": None, "offset": 1, "supervised": 400, "shares": {1: 1.0}}


def number(value: float, count: int = 100, **fields: Any) -> dict[str, Any]:
    """A mean over the tokens of one batch, with nothing wrong in it."""
    plain = {
        "value": value,
        "batches": [0],
        "texts": 8,
        "count": count,
        "kind": "mean",
        "is_exponential": False,
        "mean": value,
        "evenly": value,
        "by_batch": value,
        "by_text": value,
        "unpadded": value,
        "undropped": value,
        "aligned": value,
        "true": value,
        "pads": 0,
        "offset": 1,
        "explained": 1.0,
        "next_explained": 1.0,
        "floor": 1e-7,
    }
    return plain | fields


def metric(*numbers: dict[str, Any], place: str = PLACE, read: bool = True) -> dict[str, Any]:
    return {"place": place, "read": read, "numbers": list(numbers)}


def printed(value: float, half: float = 5e-5, digits: int = 5, line: int = 0) -> dict[str, Any]:
    return {"value": value, "half": half, "digits": digits, "line": line}


def evaluation(
    metrics: list[dict[str, Any]], *told: dict[str, Any], step: int = 50, true: float = 2.0
) -> dict[str, Any]:
    return {
        "step": step,
        "batches": 2,
        "true": true,
        "count": 400,
        "metrics": metrics,
        "accuracies": [],
        "whole": True,
        "untested": None,
        "printed": list(told),
    }


def seen(*evaluations: dict[str, Any]) -> Evidence:
    """Evaluations of a run whose loss compares with the next token."""
    return Evidence(evaluations=evaluations, windows=[{"step": 1, "alignment": ALIGNED}])
