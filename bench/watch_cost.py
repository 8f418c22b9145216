"""What watching costs: every statistic of every parameter in every step.

Timed inside our own hooks, since whole steps on a shared machine differ by more than what is
looked for; the ratio of whole steps stands beside it, with a bare loop against itself as control
and two tools that users would take instead.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional as F

from bench.interleaved import Side, race, speed_ratio, start
from lossleuth.reference.train.model import LanguageModel, ModelShape

VOCABULARY, CONTEXT = 256, 128
LAPS = 10


@dataclass(frozen=True)
class Size:
    """A model to watch: rows in a batch, steps in a round, and seconds for all rounds."""

    name: str
    layers: int
    width: int
    heads: int
    rows: int
    steps: int
    budget: float


SIZES = (
    Size("0.14 M", 2, 64, 2, 8, 10, 40),
    Size("0.14 M", 2, 64, 2, 32, 3, 40),
    Size("11 M", 6, 384, 6, 8, 1, 80),
)


def run(console: Console) -> None:
    """Compare at both sizes and print the tables."""
    for size in SIZES:
        kinds = ("bare", "bare again", "watched", "wandb.watch", "detect_anomaly")
        sides = [Side(kind, stepper, (size, kind)) for kind in kinds]
        with ExitStack() as stack:
            rivals = start(sides, stack)
            for rival in rivals:
                rival.steps(3)
            seconds = race(rivals, size.steps, size.budget).seconds
            laps = [rivals[2].steps(4 * size.steps) for _ in range(LAPS)]
        table = Table(
            "", *kinds, title=f"{size.name} parameters, {size.rows * CONTEXT} tokens a step"
        )
        ratios = [str(speed_ratio(seconds[0], row)) if i else "1" for i, row in enumerate(seconds)]
        table.add_row("step time against bare", *ratios)
        # All that a lap spent: a median of steps would hide that some steps write for others.
        inside = [sum(lap.values) for lap in laps]
        shares = [own / (lap.seconds - own) for own, lap in zip(inside, laps, strict=True)]
        low, high = np.quantile(shares, (0.1, 0.9))
        told = f"{np.median(shares):.2%} ({low:.2%} to {high:.2%})"
        table.add_row("our hooks, of the rest of a step", "", "", told, "", "")
        console.print(table)


def stepper(size: Size, kind: str) -> Iterator[float]:
    """One training step per `next`; of the watched loop the seconds spent in our hooks."""
    torch.manual_seed(0)
    shape = ModelShape(VOCABULARY, CONTEXT, size.layers, size.heads, size.width, "learned")
    model = LanguageModel(shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, VOCABULARY, (16, size.rows, CONTEXT + 1))
    folder = tempfile.mkdtemp()
    step = 0
    watch = None
    if kind == "watched":
        import lossleuth

        watch = lossleuth.watch(model, optimizer, out=Path(folder) / "run")._watch
    elif kind == "wandb.watch":
        import wandb

        os.environ["WANDB_SILENT"] = "true"
        wandb.init(mode="offline", dir=folder)
        wandb.watch(model, log="gradients", log_freq=1)
    elif kind == "detect_anomaly":
        torch.autograd.set_detect_anomaly(True)

    while True:
        own = watch.session.own_seconds if watch else 0.0
        chunk = tokens[step % len(tokens)]
        logits = model(chunk[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if kind == "wandb.watch":
            wandb.log({"loss": loss.item()})
        step += 1
        yield watch.session.own_seconds - own if watch else 0.0
