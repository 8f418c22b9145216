"""How small a fault in a gradient is found, and how fast, beside `torch.autograd.gradcheck`.

One weight's gradient of an 11 M-parameter model in float64 is scaled by 1 + a corruption; the
smallest that each check still calls wrong is looked for. Then the gradient of a bias is lost.
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

from bench.gradchecking import passes
from lossleuth.gradcheck.check import Outcome, check_gradient
from lossleuth.reference.train.model import LanguageModel, ModelShape

CORRUPTIONS = tuple(10.0**-i for i in range(1, 13))
# For checks that take longer than this many seconds.
FEW = (1e-2, 1e-5)
PATIENCE = 20.0
# Loses the gradient altogether.
ZEROED = -1.0

# A gradient is off by a share at one of the weights: does the check say so?
Check = Callable[[float, int], bool]


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
    matrix = next(i for i, w in enumerate(weights) if i > 2 and w.dim() == 2)
    bias = next(i for i, name in enumerate(names) if i > 2 and name.endswith("bias"))
    checks = _checks(model, names, weights)
    table = Table("", "seconds", "smallest corruption found", "zeroed bias")
    for name, check in checks.items():
        # Torch compiles the rules of forward mode on their first use.
        if check is not checks["gradcheck, fast mode"]:
            check(0.0, matrix)
        began = time.perf_counter()
        alarm = check(0.0, matrix)
        seconds = time.perf_counter() - began
        tried = CORRUPTIONS if seconds < PATIENCE else FEW
        smallest = _smallest(lambda share, check=check: check(share, matrix), tried)
        told = "a false alarm" if alarm else "none" if smallest is None else f"{smallest:.0e}"
        if tried is FEW:
            told += f" of {', '.join(f'{share:.0e}' for share in FEW)}"
        lost = "found" if check(ZEROED, bias) else "missed"
        table.add_row(name, f"{seconds:.2f}", told, lost)
        # At once: on a busy machine the next one may take minutes.
        console.print(f"{name}: {seconds:.2f} s, {told}, zeroed bias {lost}")
    console.print(table)
    console.print(f"corrupted: {names[matrix]}; zeroed: {names[bias]}; seconds when all is well")


def _checks(model: LanguageModel, names: list[str], weights: list[Tensor]) -> dict[str, Check]:
    tokens = torch.randint(0, 256, (2, 32))

    def loss(*values: Tensor) -> Tensor:
        logits = functional_call(model, dict(zip(names, values, strict=True)), (tokens,))
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    def corrupted(share: float, which: int) -> Callable[..., Tensor]:
        def wrong(*values: Tensor) -> Tensor:
            changed = Corrupted.apply(values[which], 1 + share)
            return loss(*values[:which], changed, *values[which + 1 :])

        return wrong

    given = [w.clone().requires_grad_() for w in weights]
    gradient = torch.autograd.grad(loss(*given), given)

    def forward_mode(share: float, which: int) -> bool:
        claimed = [g * (1 + share) if i == which else g for i, g in enumerate(gradient)]
        found = check_gradient(loss=loss, gradient=claimed, parameters=weights, locate=False)
        return found.outcome is Outcome.FAIL

    def differences(share: float, which: int) -> bool:
        found = check_gradient(corrupted(share, which), weights, locate=False)
        return found.outcome is Outcome.FAIL

    def gradcheck(share: float, which: int) -> bool:
        inputs = [w.clone().requires_grad_() for w in weights]
        return not passes(corrupted(share, which), inputs)

    return {
        "check_gradient, forward mode": forward_mode,
        "check_gradient, differences": differences,
        "gradcheck, fast mode": gradcheck,
    }


def _smallest(check: Callable[[float], bool], tried: tuple[float, ...]) -> float | None:
    """By halves: a check that finds a small fault finds every larger one."""
    found, low, high = None, 0, len(tried) - 1
    # The largest first: where that is missed, nothing else need be tried.
    middle = 0
    while low <= high:
        if check(tried[middle]):
            found, low = tried[middle], middle + 1
        else:
            high = middle - 1
        middle = (low + high) // 2
    return found
