"""Precision, operation by operation."""

from __future__ import annotations

import inspect

from steps import SmallModel, recorded_step
from torch import Tensor

from lossleuth.probes.precision.operation_error import operation_errors


def test_the_operation_that_was_done_in_few_digits_comes_first() -> None:
    def coarse(h: Tensor) -> Tensor:
        return (h.bfloat16() * h.bfloat16()).float()

    def plant(model: SmallModel) -> None:
        model.between = coarse

    window = recorded_step(change=plant)
    found = operation_errors(window, window.backwards[0])
    first = found[0]
    lines, start = inspect.getsourcelines(coarse)
    assert first.file == __file__
    assert first.line is not None
    assert start <= first.line < start + len(lines)
    assert 1e-4 < first.error < 1e-2
    others = [o for o in found if o.dtype == "float32"]
    assert others
    assert max(o.error for o in others) < 1e-6
