"""Sound programs that look sick: nobody is to be blamed for anything in them.

Shapes: B rows, T positions, C channels, E experts, V tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from lossleuth.labs.lab.programs.distillation_faults import Taught, divergence, mixed, taught
from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import (
    IGNORED,
    Batch,
    Closure,
    Parts,
    Settings,
    windows,
)


def _remade(parts: Parts, change: Callable[[nn.Module, Settings], None]) -> Parts:
    """The host with its model changed after it was made."""

    def model(settings: Settings) -> nn.Module:
        made = parts.model(settings)
        change(made, settings)
        return made

    return replace(parts, model=model)


@fault()
def clipped_always(parts: Parts, dose: float) -> Parts:
    """Every gradient is clipped, which Adam does not notice."""

    def before_update(model: nn.Module, optimizer: Any) -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)

    return replace(parts, before_update=before_update)


@fault()
def starts_at_ln_v(parts: Parts, dose: float) -> Parts:
    """The last layer begins as zeros: the first loss is ln V to the last digit."""

    def change(model: nn.Module, settings: Settings) -> None:
        nn.init.zeros_(cast(nn.Linear, model.get_submodule("head")).weight)

    return _remade(parts, change)


@fault()
def plateau_first(parts: Parts, dose: float) -> Parts:
    """Half of each row is to be copied, which comes late; frequencies are learnt at once."""

    def batches(settings: Settings) -> Iterator[Batch]:
        for window_BT in windows(settings):
            half = (window_BT.shape[1] + 1) // 2
            copied_BT = torch.cat([window_BT[:, :half]] * 2, 1)[:, : window_BT.shape[1]]
            yield Batch(copied_BT[:, :-1], copied_BT[:, 1:])

    return replace(parts, batches=batches)


@fault()
def tiny_batches(parts: Parts, dose: float) -> Parts:
    """One row at a time: the loss jumps from step to step."""
    return replace(parts, settings=replace(parts.settings, rows=1))


@fault(dose=60)
def single_spike(parts: Parts, dose: float) -> Parts:
    """One batch is from somewhere else; the loss recovers."""

    def batches(settings: Settings) -> Iterator[Batch]:
        for number, (inputs_BT, targets_BT) in enumerate(parts.batches(settings)):
            if number == int(dose):
                inputs_BT, targets_BT = inputs_BT.flip(1), targets_BT.flip(0)
            yield Batch(inputs_BT, targets_BT)

    return replace(parts, batches=batches)


@fault()
def long_warmup_and_tail(parts: Parts, dose: float) -> Parts:
    """The rate is next to nothing at both ends."""

    def schedule(optimizer: Optimizer, settings: Settings) -> LRScheduler:
        def rate(step: int) -> float:
            up = min(1.0, (step + 1) / 60)
            return up * (1.0 if step < 140 else max(1e-3, (200 - step) / 60))

        return LambdaLR(optimizer, rate)

    return replace(parts, schedule=schedule, settings=replace(parts.settings, steps=200))


@fault()
def scaler_skips(parts: Parts, dose: float) -> Parts:
    """A gradient scaler begins far too high and finds its way down."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)

    def backward(loss: Tensor) -> None:
        # In units so small that the first steps overflow.
        scaler.scale(1024 * loss).backward()  # type: ignore[no-untyped-call]  # untyped in torch

    def before_update(model: nn.Module, optimizer: Any) -> None:
        scaler.unscale_(optimizer)
        parts.before_update(model, optimizer)

    def update(optimizer: Any, closure: Closure = None) -> None:
        scaler.step(optimizer)
        scaler.update()

    return replace(parts, backward=backward, before_update=before_update, update=update)


@fault()
def frozen_on_purpose(parts: Parts, dose: float) -> Parts:
    """The embeddings are kept as they are, and are in no optimizer."""

    def change(model: nn.Module, settings: Settings) -> None:
        for name in ("tokens", "positions"):
            model.get_submodule(name).requires_grad_(False)

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        trained = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.AdamW(trained, lr=settings.rate)

    return replace(_remade(parts, change), optimizer=optimizer)


@fault()
def unused_by_design(parts: Parts, dose: float) -> Parts:
    """A second head is there for a later stage."""

    def change(model: nn.Module, settings: Settings) -> None:
        model.add_module("later", nn.Linear(settings.width, settings.text.vocabulary))

    return _remade(parts, change)


@fault()
def tied_embeddings(parts: Parts, dose: float) -> Parts:
    """The last layer is the table of tokens."""

    def change(model: nn.Module, settings: Settings) -> None:
        tokens = cast(nn.Embedding, model.get_submodule("tokens"))
        nn.init.normal_(tokens.weight, std=0.3)
        cast(nn.Linear, model.get_submodule("head")).weight = tokens.weight

    return _remade(parts, change)


@fault()
def decay_on_everything(parts: Parts, dose: float) -> Parts:
    """Norms and embeddings shrink as well."""

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=settings.rate, weight_decay=0.1)

    return replace(parts, optimizer=optimizer)


@fault()
def smoothed_labels(parts: Parts, dose: float) -> Parts:
    """The loss has a floor that is the smoothing's."""

    def loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        flat = logits_BTV.flatten(0, 1), targets_BT.flatten()
        return F.cross_entropy(*flat, ignore_index=IGNORED, label_smoothing=0.2)

    return replace(parts, loss=loss)


@fault(dose=25)
def sawtooth(parts: Parts, dose: float) -> Parts:
    """A small text, read again and again: the loss drops at each beginning."""

    def batches(settings: Settings) -> Iterator[Batch]:
        source = parts.batches(settings)
        epoch = [next(source) for _ in range(int(dose))]
        while True:
            yield from epoch

    return replace(parts, batches=batches)


@fault(dose=4)
def summed_in_the_log(parts: Parts, dose: float) -> Parts:
    """What is printed is the sum over micro-batches; what is followed is their mean."""

    def loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        return dose * parts.loss(logits_BTV, targets_BT)

    def backward(loss: Tensor) -> None:
        (loss / dose).backward()  # type: ignore[no-untyped-call]  # untyped in torch

    rows = parts.settings.rows // 4
    settings = replace(parts.settings, rows=rows)
    return replace(parts, loss=loss, backward=backward, micro_batches=4, settings=settings)


@fault(dose=40)
def high_entropy(parts: Parts, dose: float) -> Parts:
    """Hardly anything can be known of this text: the floor is high."""
    text = replace(parts.settings.text, followers=int(dose))
    return replace(parts, settings=replace(parts.settings, text=text))


class Experts(nn.Module):
    """Each position goes to one of several hidden layers."""

    def __init__(self, width: int, experts: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(experts))

    def forward(self, x_BTC: Tensor) -> Tensor:
        """The chosen expert's answer, as far as it was chosen."""
        share_BTE = self.router(x_BTC).softmax(-1)
        best_BT = share_BTE.argmax(-1)
        out = torch.zeros(*x_BTC.shape[:-1], 4 * x_BTC.shape[-1])
        for number, expert in enumerate(self.experts):
            chosen = best_BT == number
            if bool(chosen.any()):
                weight = share_BTE[..., number][chosen][:, None]
                out[chosen] = weight * expert(x_BTC[chosen])
        return out


@fault()
def experts(parts: Parts, dose: float) -> Parts:
    """A mixture of experts: many parameters get no gradient in a step."""

    def change(model: nn.Module, settings: Settings) -> None:
        for block in cast(nn.ModuleList, model.get_submodule("blocks")):
            block.up = Experts(settings.width)

    return _remade(parts, change)


@fault(dose=0.2)
def dropout(parts: Parts, dose: float) -> Parts:
    """Something is dropped in every step."""

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        return parts.decode(model, F.dropout(parts.embed(model, tokens_BT), dose))

    return replace(parts, forward=forward)


@fault(dose=4)
def hot_lesson(parts: Parts, dose: float) -> Parts:
    """T² makes the loss of a lesson sixteen times as large."""

    def compare(student_BTV: Tensor, teacher_BTV: Tensor) -> Tensor:
        return divergence(student_BTV, teacher_BTV, dose)

    return taught(parts, Taught(compare=compare))


@fault()
def small_student(parts: Parts, dose: float) -> Parts:
    """The student is too small for what the teacher knows: the lesson has a floor."""
    # So narrow a model wants a higher rate.
    smaller = replace(parts.settings, width=16, layers=1, heads=2, rate=3e-2)
    return taught(replace(parts, settings=smaller), Taught(mix=lambda lesson, labels: lesson))


@fault()
def reverse_lesson(parts: Parts, dose: float) -> Parts:
    """The divergence the other way round, by choice."""

    def compare(student_BTV: Tensor, teacher_BTV: Tensor) -> Tensor:
        said_NV = student_BTV.log_softmax(-1).flatten(0, 1)
        told_NV = teacher_BTV.log_softmax(-1).flatten(0, 1)
        return F.kl_div(told_NV, said_NV, log_target=True, reduction="batchmean")

    return taught(parts, Taught(compare=compare))


@fault()
def rising_lesson(parts: Parts, dose: float) -> Parts:
    """The teacher weighs more from step to step: the loss rises while the student learns."""
    lessons = [0]

    def mix(lesson: Tensor, labels: Tensor) -> Tensor:
        lessons[0] += 1
        return (1 + lessons[0] / 40) * mixed(lesson, labels)

    return taught(parts, Taught(mix=mix))
