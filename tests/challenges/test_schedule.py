"""Schedules held and stretched."""

from __future__ import annotations

from evidence import steps

from lossleuth.challenges.schedule import CHALLENGES
from lossleuth.types.evidence import Evidence


def test_only_a_rate_that_falls_is_held_or_stretched() -> None:
    falling, constant = ({"lr": [0.4, 0.3, 0.2, 0.1]}, {"lr": 0.1})
    for challenge in CHALLENGES:
        assert challenge.over_whole_run
        assert challenge.applies(Evidence(steps=steps(4, **falling)))
        assert not challenge.applies(Evidence(steps=steps(4, **constant)))
