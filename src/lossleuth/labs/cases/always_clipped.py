"""The same network with a small rate, warm-up and clipping, which clips every step (case 2).

Believed: clipping hides a bug in the loss kernel. True: the four faults of `hand_written_stack`;
the loss kernel is right, and a clip rate near 100 % harmless. Repairs: backward, norm, batch, mask.

    python always_clipped.py [--steps N] [--seed N] [--repaired | --repair NAME ...]
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn.utils import clip_grad_norm_

from lossleuth.labs.cases.arguments import Arguments, read_arguments
from lossleuth.labs.cases.hand_written_stack import Transformer
from lossleuth.labs.cases.loss_kernel import cross_entropy
from lossleuth.labs.cases.repaired_stack import REPAIRS, parts
from lossleuth.labs.cases.text import ALPHABET, SAMPLE, encode
from lossleuth.labs.cases.windows import Windows

LEARNING_RATE = 5e-5
WARM_UP = 200
CLIP = 1.5


class Clipped(NamedTuple):
    """What one step showed."""

    loss: float
    norm: float


def train(arguments: Arguments) -> list[Clipped]:
    """Train on the sample; the loss and the gradient's norm at each step."""
    torch.manual_seed(arguments.seed)
    windows = Windows(encode(SAMPLE))
    model = Transformer(len(ALPHABET), parts=parts(arguments.repaired))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1, (s + 1) / WARM_UP))
    steps: list[Clipped] = []
    for step in range(arguments.steps):
        inputs_BT, targets_BT = windows.batch(step)
        loss = cross_entropy(model(inputs_BT), targets_BT)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
        norm = clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        steps.append(Clipped(loss.item(), norm.item()))
        if (step + 1) % 20 == 0:
            print(line(step + 1, steps), flush=True)
    return steps


def line(step: int, steps: list[Clipped]) -> str:
    """The log's line for the last twenty steps."""
    latest = steps[-20:]
    loss = sum(s.loss for s in latest) / len(latest)
    norms = sorted(s.norm for s in latest)
    rate = sum(s.norm > CLIP for s in steps) / len(steps)
    return (
        f"step {step:4}  loss {loss:.4f}  norm {norms[0]:.2f}-{norms[-1]:.2f}  clipped {rate:.0%}"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(read_arguments(__doc__ or "", REPAIRS, steps=400))
