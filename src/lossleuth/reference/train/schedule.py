"""The learning rate as a pure function of the step."""

from __future__ import annotations

import math


def learning_rate(step: int, *, peak: float, warmup: int, steps: int, floor: float) -> float:
    """Linear warm-up to `peak`, then a cosine down to `floor * peak` at the last step.

    The first rate is above 0: a first step of rate 0 is a step thrown away, and a rate that
    reads 0 is what the fifth founding run showed while nothing moved.

    >>> rate = lambda step: learning_rate(step, peak=1.0, warmup=4, steps=10, floor=0.1)
    >>> [round(rate(step), 2) for step in (0, 3, 4, 9)]
    [0.25, 1.0, 1.0, 0.1]
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - 1 - warmup))
    return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))
