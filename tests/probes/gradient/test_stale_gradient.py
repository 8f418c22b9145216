"""Gradients from before a step."""

from __future__ import annotations

import pytest
from steps import recorded_step

from lossleuth.findings.gradient import StaleGradient
from lossleuth.probes.gradient.stale_gradient import stale_gradient


def test_gradients_that_were_not_cleared_are_measured() -> None:
    window = recorded_step()
    assert stale_gradient(window) == StaleGradient(0.0)
    run = window.backwards[0]
    run.before = {i: None if g is None else g / 2 for i, g in run.after.items()}
    found = stale_gradient(window)
    assert found is not None
    assert found.share == pytest.approx(1)
