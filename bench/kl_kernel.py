"""Forward KL with its gradient: a few rows at a time against the usual way to write it.

Both sides start from the same logits in a process of their own. Peak memory is what a call adds
to the logits that are there.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from bench.interleaved import Side, race, speed_ratio, start
from lossleuth.reference.distil.losses import forward_kl

SHAPES = ((1024, 32_000), (256, 128_256))
TEMPERATURE = 2.0
BUDGET = 25.0


def logits(rows: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    student, teacher = (torch.randn(rows, vocabulary, generator=generator) for _ in range(2))
    return student.requires_grad_(), teacher


def eager(rows: int, vocabulary: int) -> Iterator[float]:
    """Softmax of both, `kl_div`, T²."""
    student, teacher = logits(rows, vocabulary)
    while True:
        student.grad = None
        q = F.log_softmax(student / TEMPERATURE, dim=-1)
        p = F.softmax(teacher / TEMPERATURE, dim=-1)
        loss = F.kl_div(q, p, reduction="batchmean") * TEMPERATURE**2
        loss.backward()
        yield loss.item()


def ours(rows: int, vocabulary: int) -> Iterator[float]:
    """The same by `forward_kl`."""
    student, teacher = logits(rows, vocabulary)
    targets = torch.zeros(rows, dtype=torch.long)
    while True:
        student.grad = None
        loss = forward_kl(student, teacher, targets, temperature=TEMPERATURE)
        loss.backward()
        yield loss.item()


def run(console: Console) -> None:
    """Race both shapes and print time, memory and the difference of the losses."""
    table = Table("rows x vocabulary", "", "ms", "speed", "peak above logits, MB", "loss")
    for shape in SHAPES:
        with ExitStack() as stack:
            rivals = start([Side("eager", eager, shape), Side("ours", ours, shape)], stack)
            values = [rival.steps(1).values[0] for rival in rivals]
            rounds = race(rivals, 1, BUDGET)
            held = 2 * shape[0] * shape[1] * 4 / 1e6
            memory = [rival.memory() for rival in rivals]
        reference, mine = rounds.seconds
        ratios = "1", str(speed_ratio(mine, reference))
        for i, rival in enumerate(rivals):
            table.add_row(
                f"{shape[0]} x {shape[1]}" if i == 0 else "",
                rival.name,
                f"{1000 * np.median(rounds.seconds[i]):.0f}",
                ratios[i],
                f"{memory[i].peak - memory[i].before - held:.0f}",
                f"{values[i]:.6f}",
            )
        gc.collect()
    console.print(table)
