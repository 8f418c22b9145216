"""How small a fault in a gradient is found, and how fast, beside `torch.autograd.gradcheck`.

One weight's gradient of an 11 M-parameter model in float64 is scaled by 1 + a corruption; the
smallest that each check still calls wrong is looked for, from large to small.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from lossleuth.tape.check import Outcome, check_gradient
from lossleuth.train.model import LanguageModel, ModelShape

CORRUPTIONS = (1e-1, 1e-3, 1e-5, 1e-7, 1e-9, 1e-10, 1e-11, 1e-12)
WHICH = 5


class Corrupted(torch.autograd.Function):
    """The identity, with a gradient that is off by a factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        """Pass on."""
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Pass on too much."""
        return gradients[0] * ctx.factor, None


def run(console: Console) -> None:
    """Look for each check's limit and print both."""
    torch.manual_seed(0)
    model = LanguageModel(ModelShape(256, 128, 6, 6, 384, "learned")).double()
    names = [name for name, _ in model.named_parameters()]
    weights = [parameter.detach() for parameter in model.parameters()]
    tokens = torch.randint(0, 256, (2, 32))

    def loss(*values: Tensor) -> Tensor:
        logits = functional_call(model, dict(zip(names, values, strict=True)), (tokens,))
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    def corrupted(factor: float) -> Callable[..., Tensor]:
        def wrong(*values: Tensor) -> Tensor:
            changed = Corrupted.apply(values[WHICH], factor)
            return loss(*values[:WHICH], changed, *values[WHICH + 1 :])

        return wrong

    given = [w.clone().requires_grad_() for w in weights]
    gradient = torch.autograd.grad(loss(*given), given)

    def forward_mode(corruption: float) -> bool:
        claimed = [g * (1 + corruption) if i == WHICH else g for i, g in enumerate(gradient)]
        found = check_gradient(loss=loss, gradient=claimed, parameters=weights, locate=False)
        return found.outcome is Outcome.FAIL

    def differences(corruption: float) -> bool:
        return (
            check_gradient(corrupted(1 + corruption), weights, locate=False).outcome is Outcome.FAIL
        )

    def gradcheck(corruption: float) -> bool:
        inputs = [w.clone().requires_grad_() for w in weights]
        return not torch.autograd.gradcheck(
            corrupted(1 + corruption), inputs, fast_mode=True, raise_exception=False
        )

    table = Table("", "smallest corruption found", "seconds when all is well")
    checks = {
        "check_gradient, forward mode": forward_mode,
        "check_gradient, differences": differences,
        "gradcheck, fast mode": gradcheck,
    }
    for name, check in checks.items():
        began = time.perf_counter()
        alarm = check(0.0)
        seconds = time.perf_counter() - began
        smallest = _smallest(check)
        told = "a false alarm" if alarm else "none" if smallest is None else f"{smallest:.0e}"
        table.add_row(name, told, f"{seconds:.2f}")
    console.print(table)


def _smallest(check: Callable[[float], bool]) -> float | None:
    found = None
    for corruption in CORRUPTIONS:
        if not check(corruption):
            break
        found = corruption
    return found
