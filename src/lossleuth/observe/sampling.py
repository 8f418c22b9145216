"""The steps at which values that seldom change are read again.

Counts of tokens, the lines that make a step, the optimizers' settings: in the first steps all of
it is looked at each time, later now and then, so that it costs next to nothing.
"""

from __future__ import annotations

FIRST_STEPS = 64
EVERY = 32


def is_sampled(step: int) -> bool:
    """Whether a step is sampled.

    >>> [step for step in range(60, 100) if is_sampled(step)]
    [60, 61, 62, 63, 64, 96]
    """
    return step < FIRST_STEPS or step % EVERY == 0
