"""All that can be measured on one recorded step."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lossleuth.probes.gradient_truth import gradient_truth
from lossleuth.tape.window import Window


def look_at(window: Window) -> dict[str, Any]:
    """Every probe's numbers, by the probe's name."""
    truths = [gradient_truth(window, run) for run in window.backwards]
    return {"gradient_truth": [asdict(truth) for truth in truths]}
