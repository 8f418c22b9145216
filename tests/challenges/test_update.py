"""Clipping, and the usual rule."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import SETTINGS, steps

from lossleuth.challenges.update import CHALLENGES
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Made, ParameterGroup, RunSettings

SGD = RunSettings(optimizers=[Made("train.py:5", [ParameterGroup()])])


@pytest.mark.parametrize(
    ("given", "settings", "expected"),
    [
        ({"clip_factor": 0.5}, SGD, {"keep_gradients"}),
        ({"clip_factor": 1.0}, SGD, {"clip_gradients"}),
        ({}, SETTINGS, {"clip_gradients", "use_rule"}),
    ],
)
def test_what_makes_no_difference_is_not_tried(
    given: dict[str, Any], settings: RunSettings, expected: set[str]
) -> None:
    run = Evidence(steps=steps(4, **given), settings=settings)
    assert {c.change.name for c in CHALLENGES if c.applies(run)} == expected
