"""The suite that the founding projects lacked: one that can fail.

A kernel is given as a function of logits, targets and options that returns loss, gradient and
count. It is judged by a slow reference and by differences of its own loss, in three scenarios: a
small vocabulary, a large one, and masking. The reference sees every wrong number; the differences
need no reference, but see only a gradient that is not that of its loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from slow_losses import FLOAT64, check_answer, slow_cross_entropy
from torch import Tensor

Kernel = Callable[..., tuple[float, Any, int]]

# Logits and steps are multiples of GRID, so that every logit plus a step is exact in float32.
GRID = 2.0**-8
STEPS = tuple(2.0**-i for i in range(2, 8))
DIRECTIONS = 3


@dataclass(frozen=True)
class Scenario:
    """Logits and targets, and what else the kernel is told."""

    name: str
    logits: Tensor
    targets: Tensor
    options: dict[str, Any] = field(default_factory=dict)


def scenarios() -> list[Scenario]:
    """The three, each in a few sizes."""
    made = []
    for width in (2, 3, 10, 34, 100):
        made.append(Scenario(f"small vocabulary, {width}", *_some(16, width)))
    for width in (1000, 1024, 1025, 2004, 4500):
        made.append(Scenario(f"large vocabulary, {width}", *_some(4, width)))
    for width in (34, 2004):
        logits, targets = _some(12, width)
        targets[::3] = -100
        made.append(Scenario(f"masking by index, {width}", logits, targets))
        logits, targets = _some(12, width)
        mask = torch.arange(12) % 4 != 1
        made.append(Scenario(f"masking by mask, {width}", logits, targets, {"mask": mask}))
    return made


def check_kernel(kernel: Kernel) -> None:
    """Both judges, in every scenario."""
    check_by_reference(kernel)
    check_by_differences(kernel)


def check_by_reference(kernel: Kernel) -> None:
    """Loss, gradient and count are those of the slow reference, exactly and not."""
    for scenario in scenarios():
        for exact in (False, True):
            loss, gradient, count = kernel(
                scenario.logits, scenario.targets, exact=exact, **scenario.options
            )
            counted = scenario.targets != -100
            counted &= scenario.options.get("mask", torch.ones_like(counted))
            assert count == int(counted.sum()), f"{scenario.name}: {count} positions count"
            expected = slow_cross_entropy(
                scenario.logits, scenario.targets, exact=exact, **scenario.options
            )
            check_answer(loss, gradient, expected)
            sums = np.abs(np.asarray(gradient, np.float64).sum(-1))
            assert (sums <= expected.gradient_bound.sum(-1)).all(), f"{scenario.name}: row sums"


def check_by_differences(kernel: Kernel) -> None:
    """The gradient is that of the loss, along directions, to within the differences' own error."""
    generator = torch.Generator().manual_seed(5)
    for scenario in scenarios():
        _, gradient, _ = kernel(scenario.logits, scenario.targets, exact=True, **scenario.options)
        for which in range(DIRECTIONS):
            signs = torch.randint(0, 2, scenario.logits.shape, generator=generator) * 2.0 - 1
            # All columns move, or one in four.
            kept = torch.randint(0, 4, signs.shape, generator=generator) == 0
            direction = signs if which == 0 else signs * kept
            slope, bound = _slope(kernel, scenario, direction)
            products = gradient.double() * direction.double()
            rounding = 2e-7 * float(products.abs().sum())
            error = abs(float(products.sum()) - slope)
            assert error <= bound + rounding, (
                f"{scenario.name}: {error:.2e} from the differences, {bound + rounding:.2e} allowed"
            )


def _some(rows: int, width: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(width)
    logits = (torch.randn(rows, width, generator=generator) * 2 / GRID).round() * GRID
    targets = torch.randint(0, width, (rows,), generator=generator)
    targets[-1] = width - 1
    return logits, targets


def _slope(kernel: Kernel, scenario: Scenario, direction: Tensor) -> tuple[float, float]:
    """Central differences extrapolated to a step of 0 (Romberg), and a bound of their error."""

    def loss(step: float) -> float:
        moved = scenario.logits + step * direction
        return kernel(moved, scenario.targets, exact=True, **scenario.options)[0]

    table: list[list[float]] = []
    noise = 0.0
    for step in STEPS:
        high, low = loss(step), loss(-step)
        row = [(high - low) / (2 * step)]
        noise = 16 * FLOAT64 * max(abs(high), abs(low)) / step
        for order, before in enumerate(table[-1] if table else [], 1):
            row.append(row[-1] + (row[-1] - before) / (4**order - 1))
        table.append(row)
    return table[-1][-1], abs(table[-1][-1] - table[-2][-1]) + 2 * noise
