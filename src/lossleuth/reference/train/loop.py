"""The training loop: one function, five phases, read in one breath."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from lossleuth.reference.train.data import Batch
from lossleuth.reference.train.loss import mean_loss, supervised_count
from lossleuth.reference.train.nonfinite import first_bad_tensor
from lossleuth.reference.train.precision import autocast
from lossleuth.reference.train.schedule import learning_rate
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.torch_internals import scale_all


@dataclass(frozen=True)
class Step:
    """What happened in one step."""

    step: int
    loss: float
    lr: float
    norm_before_clip: float
    norm_after_clip: float
    applied: bool
    tokens: int
    seconds: float
    windows: list[int]
    first_bad: str | None = None

    @property
    def clipped(self) -> bool:
        """Whether clipping changed the gradient."""
        return self.norm_after_clip < self.norm_before_clip


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    load: Callable[[int], Batch],
    settings: TrainSettings,
    *,
    first_step: int = 0,
) -> Iterator[Step]:
    """Make the steps from `first_step` on, and yield what happened in each.

    `load(k)` is the k-th micro-batch of the whole run. A step whose loss or gradient is not
    finite is not applied; nothing is ever replaced by 0.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    device = parameters[0].device
    model.train()
    for step in range(first_step, settings.steps):
        began = time.perf_counter()

        # batch: all micro-batches first, since the loss is a mean over the tokens of them all
        first = step * settings.accumulation
        batches = [load(k) for k in range(first, first + settings.accumulation)]
        tokens = sum(supervised_count(batch.targets_BT) for batch in batches)

        loss = 0.0
        for batch in batches:
            # forward
            with autocast(device, settings.precision):
                logits_BTV = model(batch.inputs_BT.to(device))
            targets_BT = batch.targets_BT.to(device)
            part = mean_loss(logits_BTV, targets_BT, tokens, settings.loss_kernel)
            # backward
            part.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            loss += part.item()

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
        first_bad = None if finite else first_bad_tensor(model, batches)
        optimizer.zero_grad()

        windows = [window for batch in batches for window in batch.windows.tolist()]
        seconds = time.perf_counter() - began
        yield Step(
            step=step,
            loss=loss,
            lr=rate,
            norm_before_clip=norm_before,
            norm_after_clip=norm_after,
            applied=finite,
            tokens=tokens,
            seconds=seconds,
            windows=windows,
            first_bad=first_bad,
        )


def clip(parameters: list[nn.Parameter], largest: float) -> tuple[float, float]:
    """Scale the whole gradient down to norm `largest`; return its norm before and after.

    A non-finite gradient is left as it is: scaling it would spread the damage.

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> clip([weight], 1.0)
    (5.0, 1.0)
    >>> weight.grad
    tensor([0.6000, 0.8000])
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients).item()
    if not largest or not norm > largest or not math.isfinite(norm):
        return norm, norm
    scale_all(gradients, largest / norm)
    return norm, largest


def make_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.AdamW:
    """AdamW that decays matrices only: decaying gains and biases pulls them to 0 for nothing."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=settings.lr,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,
    )
