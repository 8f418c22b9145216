"""Faults in the update and in its rate."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import Parts, Settings


@fault()
def never_steps(parts: Parts, dose: float) -> Parts:
    """The counter of batches is moved on twice, and never stands where an update is due."""
    counter = [0]

    def update(optimizer: Any, closure: Any = None) -> None:
        counter[0] += 1
        if closure is not None:
            closure()
        if counter[0] % 2 == 0:
            optimizer.step()  # planted: never_steps
        counter[0] += 1

    return replace(parts, update=update)


@fault()
def stale_parameters(parts: Parts, dose: float) -> Parts:
    """The optimizer is given the parameters of a copy."""

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        kept = copy.deepcopy(model)
        return torch.optim.AdamW(kept.parameters(), lr=settings.rate)  # planted: stale_parameters

    return replace(parts, optimizer=optimizer)


@fault(dose=100, ladder=(1000, 100, 30, 10, 3))
def lr_too_high(parts: Parts, dose: float) -> Parts:
    """The rate is so many times what it was tuned to."""

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        rate = dose * settings.rate
        return torch.optim.AdamW(model.parameters(), lr=rate)  # planted: lr_too_high

    return replace(parts, optimizer=optimizer)


@fault(dose=0.01, ladder=(0.001, 0.01, 0.03, 0.1, 0.3))
def lr_too_low(parts: Parts, dose: float) -> Parts:
    """The rate is that part of what it was tuned to."""

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        rate = dose * settings.rate
        return torch.optim.AdamW(model.parameters(), lr=rate)  # planted: lr_too_low

    return replace(parts, optimizer=optimizer)


@fault()
def lr_zero(parts: Parts, dose: float) -> Parts:
    """The warm-up divides whole numbers, and gives 0 until it is over."""

    def schedule(optimizer: Optimizer, settings: Settings) -> LRScheduler:
        warmup = 2 * settings.steps
        return LambdaLR(optimizer, lambda step: float(min(1, step // warmup)))  # planted: lr_zero

    return replace(parts, schedule=schedule)


@fault(dose=20, ladder=(20, 8, 4, 2))
def schedule_too_fast(parts: Parts, dose: float) -> Parts:
    """The schedule is made for so many times fewer steps than the run has."""

    def schedule(optimizer: Optimizer, settings: Settings) -> LRScheduler:
        updates = settings.steps / dose
        return LambdaLR(  # planted: schedule_too_fast
            optimizer, lambda step: max(1e-4, 1 - step / updates)
        )

    return replace(parts, schedule=schedule)


@fault()
def ascent(parts: Parts, dose: float) -> Parts:
    """A gain was to be maximised once; the loss is still negated."""

    def backward(loss: Tensor) -> None:
        # planted: ascent
        (-loss).backward()  # type: ignore[no-untyped-call]  # untyped in torch

    return replace(parts, backward=backward)


@fault()
def update_rule_wrong(parts: Parts, dose: float) -> Parts:
    """An Adam of its own, without the correction of the first steps."""

    class Adam(torch.optim.Optimizer):
        def __init__(self, parameters: Any, lr: float) -> None:
            super().__init__(parameters, {"lr": lr, "betas": (0.9, 0.999), "eps": 1e-8})

        @torch.no_grad()
        def step(self, closure: Callable[[], Any] | None = None) -> Any:
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                first, second = group["betas"]
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                    state["m"].mul_(first).add_(p.grad, alpha=1 - first)
                    state["v"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                    size = state["v"].sqrt().add_(group["eps"])
                    p.addcdiv_(state["m"], size, value=-group["lr"])  # planted: update_rule_wrong
            return loss

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        return Adam(model.parameters(), lr=settings.rate)

    return replace(parts, optimizer=optimizer)


@fault(dose=1e-3, ladder=(1e-3, 1e-2, 1e-1), rule="sgd")
def clip_too_tight(parts: Parts, dose: float) -> Parts:
    """Gradients are clipped to far less than they are long."""

    def before_update(model: nn.Module, optimizer: Any) -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), dose)  # planted: clip_too_tight

    return replace(parts, before_update=before_update)


@fault(dose=1.0, ladder=(1.0, 0.1, 1e-2, 1e-3, 1e-4))
def epsilon_too_large(parts: Parts, dose: float) -> Parts:
    """Epsilon is far above the size of any gradient: Adam no longer divides by it."""

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        rate = settings.rate
        return torch.optim.AdamW(  # planted: epsilon_too_large
            model.parameters(), lr=rate, eps=dose
        )

    return replace(parts, optimizer=optimizer)


@fault(dose=100.0, ladder=(300.0, 100.0, 30.0, 10.0, 3.0))
def weight_decay_too_strong(parts: Parts, dose: float) -> Parts:
    """Weight decay is so many times 1, where a tenth is much."""

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        rate = settings.rate
        return torch.optim.AdamW(  # planted: weight_decay_too_strong
            model.parameters(), lr=rate, weight_decay=dose
        )

    return replace(parts, optimizer=optimizer)


@fault(dose=1, ladder=(1, 4, 16))
def optimizer_recreated(parts: Parts, dose: float) -> Parts:
    """The optimizer forgets all that it knows after so many steps."""
    steps = [0]

    def update(optimizer: Any, closure: Any = None) -> None:
        parts.update(optimizer, closure)
        steps[0] += 1
        if steps[0] % int(dose) == 0:
            optimizer.state.clear()  # planted: optimizer_recreated

    return replace(parts, update=update)


@fault(dose=0.99, ladder=(0.999, 0.99, 0.9, 0.5))
def update_undone(parts: Parts, dose: float) -> Parts:
    """After each update the weights go back most of the way to an average of them."""
    averages: dict[int, Tensor] = {}

    def update(optimizer: Any, closure: Any = None) -> None:
        weights = [p for group in optimizer.param_groups for p in group["params"]]
        for weight in weights:
            averages.setdefault(id(weight), weight.detach().clone())
        parts.update(optimizer, closure)
        with torch.no_grad():
            for weight in weights:
                average = averages[id(weight)].lerp_(weight, 1 - dose)
                weight.copy_(average)  # planted: update_undone

    return replace(parts, update=update)
