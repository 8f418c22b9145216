"""The loop of a distillation: one function, five phases, as the trainer's."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from lossleuth.reference.distil.objective import Objective
from lossleuth.reference.distil.outputs import LogitsOnly
from lossleuth.reference.train.data import Batch
from lossleuth.reference.train.loop import Step, clip
from lossleuth.reference.train.loss import supervised_count
from lossleuth.reference.train.nonfinite import bad_parameter, first_bad_tensor
from lossleuth.reference.train.schedule import learning_rate


@dataclass(frozen=True)
class DistilStep(Step):
    """What happened in one step; `loss` is what was minimised."""

    parts: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    temperature: float = math.nan
    empty_batches: int = 0


@dataclass(frozen=True)
class EmptyStep:
    """A step without a single supervised token: there is no loss, and nothing was updated."""

    step: int
    empty_batches: int


def distil(
    student: nn.Module,
    optimizer: torch.optim.Optimizer,
    load: Callable[[int], Batch],
    objective: Objective,
    *,
    first_step: int = 0,
) -> Iterator[DistilStep | EmptyStep]:
    """Make the steps from `first_step` on, and yield what happened in each.

    `load(k)` is the k-th micro-batch of the whole run. Micro-batches without a supervised token
    are left out and counted; a step whose loss or gradient is not finite is not applied. Nothing
    is ever replaced by 0.
    """
    settings, curriculum = objective.settings, objective.curriculum
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    student.train()
    loaded = made = 0
    for step in range(first_step, settings.steps):
        began = time.perf_counter()

        # batch: all micro-batches first, since the loss is a mean over the tokens of them all
        first = step * settings.accumulation
        batches = {k: load(k) for k in range(first, first + settings.accumulation)}
        loaded += len(batches)
        made += 1
        assert made == loaded // settings.accumulation, (made, loaded, settings.accumulation)
        filled = {k: b for k, b in batches.items() if supervised_count(b.targets_BT)}
        empty = len(batches) - len(filled)
        if not filled:
            yield EmptyStep(step, empty)
            continue
        tokens = sum(supervised_count(batch.targets_BT) for batch in filled.values())

        loss, parts = 0.0, dict.fromkeys(curriculum.parts, 0.0)
        for k, batch in filled.items():
            # forward
            value = objective(student, batch, k, step, tokens)
            # backward
            value.total.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            loss += value.total.item()
            parts = {name: parts[name] + value.parts[name] for name in parts}

        # clip
        norm_before, norm_after = clip(parameters, settings.clip)

        # update
        rate = learning_rate(
            step,
            peak=settings.lr,
            warmup=settings.warmup,
            steps=settings.steps,
            floor=settings.lr_floor,
        )
        finite = math.isfinite(loss) and math.isfinite(norm_before)
        if finite:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        first_bad = None if finite else _first_bad(student, list(filled.values()), parts)
        optimizer.zero_grad()

        yield DistilStep(
            step=step,
            loss=loss,
            lr=rate,
            norm_before_clip=norm_before,
            norm_after_clip=norm_after,
            applied=finite,
            tokens=tokens,
            seconds=time.perf_counter() - began,
            windows=[w for batch in batches.values() for w in batch.windows.tolist()],
            first_bad=first_bad,
            parts=parts,
            weights=curriculum.weights(step),
            temperature=curriculum.temperature(step),
            empty_batches=empty,
        )


def _first_bad(student: nn.Module, batches: list[Batch], parts: Mapping[str, float]) -> str:
    """What was not finite first: a weight, something on the way, or a part of the loss."""
    parameter = bad_parameter(student)
    if parameter:
        return parameter
    found = first_bad_tensor(LogitsOnly(student), batches)
    part = next((name for name, value in parts.items() if not math.isfinite(value)), None)
    if part and found.startswith(("gradient", "norm", "a value")):
        return f"the {part} part of the loss"
    return found
