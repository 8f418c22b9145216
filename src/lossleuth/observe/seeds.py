"""Shifts the seeds of a script: a number is added to every seed it sets.

Generators that a script makes and seeds for itself are left alone: they mostly choose its data.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

UNSEEDED = 20_261


def shift_seeds(
    shift: int, replace: Callable[[Any, str, Any], None], *, begins: bool = True
) -> None:
    """Shift the seeds of torch, `random` and numpy; seed what the script leaves unseeded.

    In a script that does not begin here but goes on, generators are left as they are.
    """
    import numpy as np
    import torch

    seed_python, seed_numpy, seed_torch = random.seed, np.random.seed, torch.manual_seed
    make_generator = np.random.default_rng

    def python(a: Any = None, version: int = 2) -> None:
        if a is None:
            seed_python(UNSEEDED + shift, version)
        else:
            seed_python(a + shift if isinstance(a, int) else a, version)

    def numpy(seed: Any = None) -> None:
        if seed is None:
            seed_numpy(UNSEEDED + shift)
        else:
            seed_numpy((seed + shift) % 2**32 if isinstance(seed, int) else seed)

    def of_torch(seed: Any) -> Any:
        shifted = int(seed) + shift
        # Torch accepts seeds of 64 bits.
        return seed_torch(shifted if shifted < 2**64 else shifted - 2**64)

    def chance_of_torch() -> int:
        seed_torch(UNSEEDED + shift)
        return UNSEEDED + shift

    def generator(seed: Any = None) -> Any:
        return make_generator(UNSEEDED + shift if seed is None else seed)

    # A seed that is left to chance must be the same in every run with the same shift. Torch seeds
    # itself by chance as well, anew in every process.
    if begins:
        python()
        numpy()
        chance_of_torch()
    replace(random, "seed", python)
    replace(np.random, "seed", numpy)
    replace(np.random, "default_rng", generator)
    for owner in (torch, torch.random):
        replace(owner, "seed", chance_of_torch)
        if shift:
            replace(owner, "manual_seed", of_torch)
