"""Tokens per second of the trainer with our loss kernels and with torch's, at V = 32 000.

Same weights, batches and settings but for `loss_kernel`; that the losses agree is shown first.
Torch's runs twice: its ratio to itself is the noise of the measurement. What the loss can save is
bounded by its share of the step, so that is printed too, from torch's own profiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from bench.interleaved import Side, race, speed_ratio, start
from bench.train_speed import same_weights
from lossleuth.reference.train.allocator import keep_freed_memory
from lossleuth.reference.train.data import BatchOrder, Span, make_batch, make_windows
from lossleuth.reference.train.loop import make_optimizer, train
from lossleuth.reference.train.model import LanguageModel, ModelShape
from lossleuth.reference.train.settings import TrainSettings

VOCABULARY = 32_000
COMPARED_STEPS = 3
# What torch's cross-entropy is made of, forward and backward.
OF_THE_LOSS = (
    *("aten::_log_softmax", "aten::_log_softmax_backward_data"),
    *("aten::nll_loss_forward", "aten::nll_loss_backward", "aten::zero_"),
)


@dataclass(frozen=True)
class Size:
    """A model to compare at, and the seconds for all rounds."""

    name: str
    settings: TrainSettings
    budget: float


SIZES = (
    Size("width 128, 4 layers", TrainSettings(batch=8, steps=2000), 90.0),
    Size(
        "width 384, 6 layers",
        TrainSettings(batch=8, steps=2000, layers=6, width=384, heads=6),
        120.0,
    ),
)


def trainer(settings: TrainSettings) -> Iterator[float]:
    """The trainer on tokens drawn as words are: few often, most seldom."""
    keep_freed_memory()
    drawn = np.random.default_rng(0).zipf(1.2, 200_000) % VOCABULARY
    tokens = drawn.astype(np.uint16)
    windows = make_windows([Span(0, len(tokens) - 1)], settings.context, settings.context)
    order = BatchOrder(len(windows), settings.batch, settings.seed)
    shape = ModelShape(
        vocabulary=VOCABULARY,
        context=settings.context,
        layers=settings.layers,
        heads=settings.heads,
        width=settings.width,
        positions=settings.positions,
    )
    model = LanguageModel(shape)
    same_weights(model)
    optimizer = make_optimizer(model, settings)
    steps = train(model, optimizer, lambda k: make_batch(tokens, windows, order.at(k)), settings)
    return (step.loss for step in steps)


def run(console: Console) -> None:
    """Race both at each size and print the tables."""
    sentence = f"torch {torch.__version__}, {torch.get_num_threads()} threads; V = {VOCABULARY}"
    console.print(sentence, highlight=False)
    for size in SIZES:
        compare(console, size)


def compare(console: Console, size: Size) -> None:
    """One model: losses beside each other, tokens per second, memory."""
    kernels = {"ours": "lossleuth", "torch": "torch", "torch again": "torch"}
    sides = [
        Side(name, trainer, (replace(size.settings, loss_kernel=kernel),))
        for name, kernel in kernels.items()
    ]
    with ExitStack() as stack:
        rivals = start(sides, stack)
        losses = np.array([rival.steps(COMPARED_STEPS).values for rival in rivals])
        rounds = race(rivals, 1, size.budget)
        memory = [rival.memory() for rival in rivals]
        profile = rivals[1].profile(2)
    quiet = rounds.quiet()
    tokens = size.settings.batch * size.settings.context
    table = Table("", *kernels, title=f"{size.name}, {tokens} tokens a step")
    per_step = np.median(quiet.seconds, axis=1)
    table.add_row("tokens/s, median", *(f"{tokens / seconds:,.0f}" for seconds in per_step))
    for label, kept in (("quiet", quiet), ("all", rounds)):
        ratios = [str(speed_ratio(seconds, kept.seconds[1])) for seconds in kept.seconds]
        table.add_row(f"speed against torch's, {label} rounds", *ratios)
    table.add_row("peak memory, MB", *(f"{found.peak:.0f}" for found in memory))
    console.print(table)
    console.print(
        f"cross-entropy is {profile.share(*OF_THE_LOSS):.0%} of torch's step; losses of the first "
        f"{COMPARED_STEPS} steps: {losses[1, 0]:.5f} to {losses[1, -1]:.5f}, largest difference "
        f"{np.abs(losses - losses[1]).max():.1e}",
        f"{len(rounds.foreign)} rounds, {len(quiet.foreign)} of them quiet: other processes took "
        f"at most {quiet.foreign.max():.0%} of the processors there, "
        f"{np.median(rounds.foreign):.0%} in the median of all",
        sep="\n",
        highlight=False,
    )
