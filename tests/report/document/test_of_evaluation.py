"""Which causes are faults of a reported number."""

from __future__ import annotations

from lossleuth.report.document.of_evaluation import OF_EVALUATION


def test_a_wrong_metric_is_and_a_wrong_gradient_is_not() -> None:
    assert "metric_offset" in OF_EVALUATION
    assert "wrong_backward" not in OF_EVALUATION
