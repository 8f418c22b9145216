"""Steps at which weights moved by more than their update: something else has written to them."""

from __future__ import annotations

import math
from itertools import pairwise

from lossleuth.types.cause import Limit
from lossleuth.types.evidence import Evidence

# Larger tensors are read in samples, of other elements at each step.
MAX_SIZE = 2_048
# Tensors that are compared, spread over all of them: a run may have a million readings.
MAX_COMPARED = 16
MIN_TIMES_UPDATE = Limit(
    1.1,
    "least move of a weight's size, in sizes of its update, that the update cannot have made",
    "1 is a bound for every update; the largest of 90 programs that keep their weights is 1.00",
)
MIN_TENSORS = Limit(
    0.5, "least share of the small tensors that moved so", "a program may clamp one of them"
)
MIN_STEPS = Limit(3, "fewest such steps", "weights may be loaded once")
LIMITS = (MIN_TIMES_UPDATE, MIN_TENSORS, MIN_STEPS)


def rewritten(evidence: Evidence) -> list[int]:
    """Those steps; none where they are fewer than is beyond suspicion.

    >>> from lossleuth.types.observed import Readings, Step
    >>> sizes = [[1.0], [1.1], [0.5], [0.6], [0.1], [0.2], [0.7]]
    >>> readings = Readings(weight_rms=sizes, update_rms=[[0.1]] * 7)
    >>> rewritten(Evidence(steps=[Step(i) for i in range(7)], sizes=[8], readings=readings))
    [2, 4, 6]
    """
    weights, updates = evidence.readings.weight_rms, evidence.readings.update_rms
    small = [i for i, size in enumerate(evidence.sizes) if size <= MAX_SIZE]
    small = small[:: -(-len(small) // MAX_COMPARED) or 1]
    rows = zip(evidence.steps, weights, updates, strict=False)
    found = []
    for (before, old, _), (step, new, update) in pairwise(rows):
        if step.step != before.step + 1:
            continue
        known = [
            abs(new[i] - old[i]) > MIN_TIMES_UPDATE * update[i]
            for i in small
            if math.isfinite(new[i] - old[i]) and update[i] > 0
        ]
        if known and sum(known) >= MIN_TENSORS * len(known):
            found.append(step.step)
    return found if len(found) >= MIN_STEPS else []
