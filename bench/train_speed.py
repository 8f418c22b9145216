"""Tokens per second and peak memory of the trainer against the usual minimal loop.

Both have the same mathematics, weights, batches and hyper-parameters; that their losses agree is
shown first. The plain loop runs twice: its ratio to itself is the noise of the measurement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import nn

from bench import plain_loop
from bench.interleaved import Profile, Rounds, Side, race, speed_ratio, start
from lossleuth.reference.train.allocator import keep_freed_memory
from lossleuth.reference.train.corpus import read_corpus
from lossleuth.reference.train.data import (
    BatchOrder,
    Windows,
    document_spans,
    make_batch,
    make_windows,
    write_tokens,
)
from lossleuth.reference.train.loop import make_optimizer, train
from lossleuth.reference.train.model import INIT_STD, LanguageModel, ModelShape
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.reference.train.tokenizer import build_tokenizer

MATRIX_PRODUCTS = ("aten::addmm", "aten::mm", "aten::bmm")
ATTENTION = (
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
)
COMPARED_STEPS = 5
PROFILED_STEPS = 3


@dataclass(frozen=True)
class Size:
    """A model to compare at: steps in a round, and seconds for all rounds."""

    name: str
    settings: TrainSettings
    steps: int
    budget: float


SIZES = (
    Size("0.8 M", TrainSettings(steps=2000), steps=5, budget=40),
    Size("10 M", TrainSettings(steps=2000, layers=6, width=384, heads=6), steps=1, budget=80),
)


@dataclass(frozen=True)
class Task:
    """What both sides train on: a token file, and the starts of the windows that are full."""

    path: Path
    dtype: np.dtype
    vocabulary: int
    starts: NDArray[np.int64]

    def tokens(self) -> np.memmap:
        return np.memmap(self.path, self.dtype, mode="r")


def run(console: Console) -> None:
    """Compare at both sizes and print the tables."""
    sentence = f"torch {torch.__version__}, {torch.get_num_threads()} threads; float32, eager"
    console.print(sentence, highlight=False)
    with TemporaryDirectory() as directory:
        for size in SIZES:
            task = make_task(Path(directory) / "tokens.bin", size.settings)
            compare(console, size, task)


def make_task(path: Path, settings: TrainSettings) -> Task:
    """The embedded text as tokens. Windows cut short by a document's end are left out, since
    the plain loop knows none."""
    corpus = read_corpus(())
    tokenizer = build_tokenizer(settings.tokenizer, corpus.documents, settings.vocab_size)
    tokens = write_tokens(path, corpus.documents, tokenizer)
    spans = document_spans(tokens, tokenizer.end_of_text)
    windows = make_windows(spans, settings.context, settings.window_stride)
    full = windows.starts[windows.lengths == settings.context]
    return Task(path, tokens.dtype, tokenizer.size, full)


def ours(task: Task, settings: TrainSettings) -> Iterator[float]:
    """The trainer, composed as `lossleuth train` does."""
    keep_freed_memory()
    tokens = task.tokens()
    windows = Windows(task.starts, np.full_like(task.starts, settings.context), settings.context)
    order = BatchOrder(len(windows), settings.batch, settings.seed)
    shape = ModelShape(
        vocabulary=task.vocabulary,
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


def plain(task: Task, settings: TrainSettings) -> Iterator[float]:
    """The plain loop, given the starts of the same windows in the same order."""
    order = BatchOrder(len(task.starts), settings.batch, settings.seed)
    starts = np.stack([task.starts[order.at(k)] for k in range(settings.steps)])
    config = plain_loop.Config(
        vocab_size=task.vocabulary,
        block_size=settings.context,
        batch_size=settings.batch,
        n_layer=settings.layers,
        n_head=settings.heads,
        n_embd=settings.width,
        max_iters=settings.steps,
        learning_rate=settings.lr,
        min_lr=settings.lr * settings.lr_floor,
        warmup_iters=settings.warmup,
        weight_decay=settings.weight_decay,
        beta1=settings.beta1,
        beta2=settings.beta2,
        eps=settings.epsilon,
        grad_clip=settings.clip,
    )
    model = plain_loop.GPT(config)
    same_weights(model)
    optimizer = plain_loop.configure_optimizer(model, config)
    return plain_loop.train(model, optimizer, task.tokens(), starts, config)


def same_weights(model: nn.Module) -> None:
    """Weights that depend only on the order and shape of the parameters."""
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.dim() >= 2:
            nn.init.normal_(parameter, std=INIT_STD)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


def compare(console: Console, size: Size, task: Task) -> None:
    """Check that the losses agree, race, and print what was measured."""
    settings = size.settings
    sides = [Side(n, b, (task, settings)) for n, b in (("ours", ours), ("plain", plain))]
    sides.append(Side("plain again", plain, (task, settings)))
    with ExitStack() as stack:
        rivals = start(sides, stack)
        losses = np.array([rival.steps(COMPARED_STEPS).values for rival in rivals])
        rounds = race(rivals, size.steps, size.budget)
        memory = [rival.memory() for rival in rivals]
        profiles = [rival.profile(PROFILED_STEPS) for rival in rivals]

    quiet = rounds.quiet()
    tokens = settings.batch * settings.context
    table = Table("", *(rival.name for rival in rivals), title=f"{size.name} parameters")
    per_step = (np.median(quiet.seconds, axis=1) / size.steps).tolist()
    table.add_row("tokens/s, median", *(f"{tokens / seconds:,.0f}" for seconds in per_step))
    for label, kept in (("quiet", quiet), ("all", rounds)):
        table.add_row(f"speed against plain, {label} rounds", *_ratios(kept))
    table.add_row("peak memory, MB", *(f"{m.peak:.0f}" for m in memory))
    table.add_row("of it from the first step on", *(f"{m.peak - m.before:.0f}" for m in memory))
    for label, names in (("matrix products", MATRIX_PRODUCTS), ("attention", ATTENTION)):
        table.add_row(f"time in {label}", *(f"{p.share(*names):.0%}" for p in profiles))
    table.add_row("slowed by the profiler", *map(_slowdown, profiles, per_step))
    console.print(table)
    difference = np.abs(losses - losses[1]).max()
    console.print(
        f"losses of the first {COMPARED_STEPS} steps: {losses[1, 0]:.4f} to {losses[1, -1]:.4f}, "
        f"largest difference {difference:.1e}",
        f"{len(rounds.foreign)} rounds of {size.steps} steps each, {len(quiet.foreign)} of them "
        f"quiet: other processes took at most {quiet.foreign.max():.0%} of the processors there, "
        f"{np.median(rounds.foreign):.0%} in the median of all",
        sep="\n",
        highlight=False,
    )


def _ratios(rounds: Rounds) -> list[str]:
    ours, reference, again = rounds.seconds
    return [str(speed_ratio(ours, reference)), "1", str(speed_ratio(again, reference))]


def _slowdown(profile: Profile, per_step: float) -> str:
    return f"{profile.seconds / PROFILED_STEPS / per_step - 1:+.0%}"
