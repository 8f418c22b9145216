"""The model with which users' other choices were compared: faults under other names.

    python peers.py [--steps N] [--seed N] [--fault ID [--dose X]]

More tokens than the other hosts, a longer run, and the same make as `plain`.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from lossleuth.labs.lab.programs import plain
from lossleuth.labs.lab.programs.made_up_text import Text
from lossleuth.labs.lab.programs.planting import asked
from lossleuth.labs.lab.programs.training_parts import Parts, Settings


def healthy() -> Parts:
    """The parts of this host without a fault."""
    text = Text(vocabulary=96, followers=12, seed=11)
    return replace(plain.healthy(Settings(steps=300, text=text)), host="peers")


if __name__ == "__main__":
    torch.set_num_threads(1)
    plain.train(asked(healthy(), __doc__ or ""))
