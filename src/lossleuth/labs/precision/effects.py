"""What each way to compute a loss does to it, to its gradient, and to the update."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lossleuth.kernels import cross_entropy_with_gradient
from lossleuth.labs.precision.noise import Noise
from lossleuth.labs.precision.reference import Truth, sums_of
from lossleuth.labs.precision.step import Step, shift_of_update
from lossleuth.native import library as native
from lossleuth.native.summation import METHODS, row_sums

FORMATS = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
# The best of so many timings: others on the machine can only slow one down.
TIMINGS = 5


@dataclass(frozen=True)
class Effect:
    """One way to compute, against the truth."""

    name: str
    # Largest relative error of a row's sum, or of all gradient entries together.
    error: float
    # Of the batch's mean loss, in nats.
    loss: float
    # Share of the update.
    update: float
    verdict: str
    # Per number and on one thread: serial compiled code for sums, torch's softmax for formats, loss
    # and gradient for our kernels; None if unknown.
    nanoseconds: float | None = None
    # Share of the gradient's entries that became 0.
    flushed: float = 0.0


def sum_effects(step: Step, truth: Truth, noise: Noise) -> list[Effect]:
    """Sums of the same float32 exponentials: only the summation differs."""
    x_NV = step.logits_NV
    powers_NV = (x_NV - x_NV.amax(1, keepdim=True)).exp()
    exact_N = torch.from_numpy(sums_of(powers_NV.numpy()).astype(np.float64))
    gradient_NV = torch.from_numpy(truth.gradient_NV.astype(np.float64))
    found = []
    for method in METHODS:
        relative_N = row_sums(powers_NV, method) / exact_N - 1
        # p = power / sum, so that an error of the sum is one of every p in the row.
        off_NV = powers_NV.double() / exact_N[:, None] * (1 / (1 + relative_N) - 1)[:, None]
        changed_NV = gradient_NV + off_NV / len(x_NV)
        loss = abs(float(torch.log1p(relative_N).mean()))
        update = shift_of_update(step, gradient_NV, changed_NV)
        error, verdict = float(relative_N.abs().max()), noise.verdict(loss, update)
        cost = cost_of_sum(powers_NV, method)
        found.append(Effect(method, error, loss, update, verdict, cost))
    return found


def format_effects(step: Step, truth: Truth, noise: Noise) -> list[Effect]:
    """Softmax and gradient in each format, and by our kernels."""
    x_NV, targets_N = step.logits_NV, step.targets_N
    found = []
    for name, dtype in FORMATS.items():
        cost = _cost(partial(_softmax, x_NV, dtype), x_NV.numel())
        computed = in_format(x_NV, targets_N, dtype)
        found.append(_effect(name, computed, cost, step, truth, noise))
        if dtype.itemsize == 2:
            computed = in_format(x_NV, targets_N, dtype, narrow=True)
            found.append(_effect(f"{name}, summed in it", computed, None, step, truth, noise))
    for name, exact in (("our kernel", False), ("our kernel, exact", True)):
        kernel = partial(cross_entropy_with_gradient, x_NV, targets_N, exact=exact)
        cost = _cost(kernel, x_NV.numel())
        found.append(_effect(name, kernel()[:2], cost, step, truth, noise))
    return found


def in_format(
    logits_NV: Tensor, targets_N: Tensor, dtype: torch.dtype, *, narrow: bool = False
) -> tuple[float, Tensor]:
    """Mean loss, and the gradient of it in a format: logits, powers, softmax and gradient.

    Sums and the loss are in float32 at least, as torch has them, or with `narrow` in the format.

    >>> loss, gradient = in_format(torch.zeros(1, 4), torch.tensor([1]), torch.float16)
    >>> round(loss, 4), gradient.tolist()
    (1.3863, [[0.25, -0.75, 0.25, 0.25]])
    """
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    x_NV = logits_NV.to(dtype)
    below_NV = x_NV - x_NV.amax(1, keepdim=True)
    powers_NV = below_NV.exp()
    sums_N = row_sums(powers_NV, "naive").to(wide) if narrow else powers_NV.to(wide).sum(1)
    own_N = below_NV.gather(1, targets_N[:, None]).squeeze(1).to(wide)
    loss = float((sums_N.log() - own_N).double().mean())
    softmax_NV = (powers_NV.to(wide) / sums_N[:, None]).to(dtype)
    softmax_NV.scatter_add_(1, targets_N[:, None], -torch.ones_like(softmax_NV[:, :1]))
    return loss, softmax_NV / len(x_NV)


def _softmax(logits_NV: Tensor, dtype: torch.dtype) -> Tensor:
    return logits_NV.to(dtype).softmax(-1)


def _effect(
    name: str,
    computed: tuple[float, Tensor],
    cost: float | None,
    step: Step,
    truth: Truth,
    noise: Noise,
) -> Effect:
    gradient_NV = torch.from_numpy(truth.gradient_NV.astype(np.float64))
    loss, changed_NV = computed[0], computed[1].double()
    size = float(gradient_NV.norm())
    update, off = shift_of_update(step, gradient_NV, changed_NV), abs(loss - truth.loss)
    flushed = ((changed_NV == 0) & (gradient_NV != 0)).double().mean()
    return Effect(
        name,
        float((changed_NV - gradient_NV).norm()) / size if size else float("nan"),
        off,
        update,
        noise.verdict(off, update),
        cost,
        float(flushed),
    )


def cost_of_sum(powers_NV: Tensor, method: str) -> float | None:
    """Of the compiled code; what Python's loops cost says nothing about a method."""
    if native.load() is None:
        return None
    return _cost(lambda: row_sums(powers_NV, method), powers_NV.numel())


def _cost(work: Callable[[], Any], numbers: int) -> float:
    threads, best = torch.get_num_threads(), float("inf")
    # A second thread that waits for a processor would be measured too.
    torch.set_num_threads(1)
    try:
        for _ in range(TIMINGS):
            began = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    return best / numbers * 1e9
