"""A plain transformer that trains on the batches of a run, step by step, at a good rate.

It has no more parameters than the run. Where there is no time for as many, a smaller one is trained
for all steps rather than a large one for some: the smaller, the more it says.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.reference.train.model import LanguageModel, ModelShape
from lossleuth.yardstick.supervised_batches import NONE, Batch

# Rates that are tried, each over a share of the steps, until a lower one is no better: those that
# small transformers are trained at, from the highest.
RATES = (1e-2, 3e-3, 1e-3)
TRIED_SHARE, MIN_TRIED = 0.1, 30
WARMUP_SHARE, MAX_WARMUP = 0.1, 40
# The rate falls to this share of itself along a cosine.
RATE_FLOOR = 0.1
CLIP, BETAS, WEIGHT_DECAY = 1.0, (0.9, 0.95), 0.1
SEED = 0
# Steps whose time is taken, after one that warms up.
TIMED_STEPS = 3
# A model that does not fit the time is made so much smaller, and again, down to the narrowest.
SMALLER = 0.4
NARROWEST = 8
# Widths up to which a model has so many layers.
DEPTHS = ((112, 2), (192, 3), (320, 4), (512, 5), (1 << 30, 6))
# A smaller one is worth it if its steps take so many times less.
WORTH = 1.5
# Of a forward and a backward pass per parameter and token; what no core of today does alone; steps
# that have to be possible at that speed for a model to be timed at all.
FLOPS_PER_PARAMETER, FLOPS_PER_SECOND, MIN_FEASIBLE = 6, 1e11, 50
# The share of its time that is planned for: other work shares the cores.
PLANNED_SHARE = 0.85

Step = Sequence[Batch]


@dataclass(frozen=True)
class ReferenceRun:
    """The loss at each step that was reached, and what was trained."""

    losses: list[float]
    parameters: int
    rate: float


def train_reference(
    steps: Sequence[Step],
    vocabulary: int,
    parameters: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> ReferenceRun:
    """Train on all steps, as far as the time goes."""
    until = clock() + seconds
    rows = max(batch.tokens.shape[1] for step in steps for batch in step)
    shape = _feasible(shape_for(parameters, vocabulary, rows), steps, seconds)
    each = _seconds_per_step(shape, steps, until, clock)
    while _reach(len(steps), each, until - clock()) < len(steps) and shape.width > NARROWEST:
        smaller = shape_for(int(SMALLER * size_of(shape)), vocabulary, rows)
        its = _seconds_per_step(smaller, steps, until, clock)
        if its * WORTH > each:
            # Hardly faster: rather fewer steps of the larger one.
            break
        shape, each = smaller, its
    reached = _reach(len(steps), each, until - clock())
    tried = steps[: _tried(reached)]
    rate, lowest = RATES[0], math.inf
    for lower in RATES:
        end = _end_of(_trained(shape, tried, lower, until, clock, reached, held=True))
        if lowest <= end < math.inf:
            break
        if end < lowest:
            rate, lowest = lower, end
    losses = _trained(shape, steps[:reached], rate, until, clock, reached)
    return ReferenceRun(losses, size_of(shape), rate)


def _reach(steps: int, each: float, seconds: float) -> int:
    """How many steps there is time for, beside those that are tried with several rates."""
    fitting = int(PLANNED_SHARE * seconds / each) if each else steps
    return max(1, min(steps, fitting - len(RATES) * _tried(min(steps, fitting))))


def _tried(steps: int) -> int:
    return min(steps, max(MIN_TRIED, int(TRIED_SHARE * steps)))


def _feasible(shape: ModelShape, steps: Sequence[Step], seconds: float) -> ModelShape:
    """One whose steps are no hopeless work, by count: to time them would take too long."""
    largest = max(sum(batch.tokens.size for batch in step) for step in steps)
    while shape.width > NARROWEST:
        work = FLOPS_PER_PARAMETER * size_of(shape) * largest * MIN_FEASIBLE
        if work < FLOPS_PER_SECOND * seconds:
            break
        shape = shape_for(int(SMALLER * size_of(shape)), shape.vocabulary, shape.context)
    return shape


def shape_for(parameters: int, vocabulary: int, context: int) -> ModelShape:
    """The widest model of at most so many parameters, and the narrowest if none is so small.

    >>> shape = shape_for(100_000, vocabulary=64, context=32)
    >>> shape.layers, shape.width, size_of(shape) <= 100_000
    (2, 56, True)
    """
    best = _shape(NARROWEST, vocabulary, context)
    width = NARROWEST
    while size_of(shape := _shape(width, vocabulary, context)) <= parameters:
        best, width = shape, width + (8 if width < 112 else 16 if width < 320 else 32)
    return best


def _shape(width: int, vocabulary: int, context: int) -> ModelShape:
    layers = next(layers for widest, layers in DEPTHS if width <= widest)
    of_head = 32 if width > 320 else 16 if width % 16 == 0 else 8
    return ModelShape(vocabulary, context, layers, width // of_head, width, "rotary")


def size_of(shape: ModelShape) -> int:
    """Parameters of a model of that shape; a test counts them."""
    block = 12 * shape.width**2 + 13 * shape.width
    return shape.vocabulary * shape.width + shape.layers * block + 2 * shape.width


def _seconds_per_step(
    shape: ModelShape, steps: Sequence[Step], until: float, clock: Callable[[], float]
) -> float:
    """Of the largest steps, so that none is a surprise; infinite where there is no time left."""
    largest = max(steps, key=lambda step: sum(batch.tokens.size for batch in step))
    _trained(shape, [largest], RATES[0], until, clock, 1)
    began = clock()
    made = len(_trained(shape, [largest] * TIMED_STEPS, RATES[0], until, clock, TIMED_STEPS))
    return (clock() - began) / made if made else math.inf


def _trained(
    shape: ModelShape,
    steps: Sequence[Step],
    rate: float,
    until: float,
    clock: Callable[[], float],
    planned: int,
    *,
    held: bool = False,
) -> list[float]:
    """Losses before each update; `held` keeps the rate where it is after its warm-up."""
    torch.manual_seed(SEED)
    model = LanguageModel(shape)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=rate, betas=BETAS, weight_decay=WEIGHT_DECAY
    )
    losses = []
    for number, step in enumerate(steps):
        if clock() > until:
            break
        optimizer.param_groups[0]["lr"] = rate * _share(number, planned, held=held)
        optimizer.zero_grad()
        loss = _mean_loss(model, step)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no annotation for it
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def _mean_loss(model: LanguageModel, step: Step) -> Tensor:
    """Over all supervised tokens of all micro-batches."""
    total = torch.zeros(())
    for batch in step:
        logits_BTV = model(torch.from_numpy(batch.tokens.astype(np.int64)))
        targets_N = torch.from_numpy(batch.targets.astype(np.int64)).reshape(-1)
        total = total + F.cross_entropy(
            logits_BTV.flatten(0, 1), targets_N, ignore_index=NONE, reduction="sum"
        )
    return total / sum(batch.count for batch in step)


def _share(number: int, planned: int, *, held: bool) -> float:
    """Share of the rate at a step: a warm-up, then a cosine."""
    warmup = max(1, min(MAX_WARMUP, int(WARMUP_SHARE * planned)))
    if number < warmup:
        return (number + 1) / warmup
    if held:
        return 1.0
    gone = (number - warmup) / max(1, planned - warmup)
    return RATE_FLOOR + (1 - RATE_FLOOR) * 0.5 * (1 + math.cos(math.pi * gone))


def _end_of(losses: Sequence[float]) -> float:
    """The mean over the last third; what is not finite is worst."""
    last = losses[-max(1, len(losses) // 3) :]
    mean = sum(last) / len(last) if last else math.inf
    return mean if math.isfinite(mean) else math.inf
