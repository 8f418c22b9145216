"""The losses, slow and plain: one row at a time, in the widest float of the machine (80 bits on
x86), with bounds of the error that the fast ones may make, from rounding alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Wide = np.longdouble
# Half a unit in the last place, of 1.
FLOAT32, FLOAT64, BFLOAT16 = 2.0**-24, 2.0**-53, 2.0**-8
# Errors of a power by its own computation, in such halves: the last product, sums of the series,
# and the remainder's rounding.
POWER = 4
# Roundings of an exponent: the difference to the largest, the inverse temperature, their product.
EXPONENT = 3
SMALLEST = 2.0**-126


@dataclass(frozen=True)
class Answer:
    """A loss and its gradient, each with the error that is allowed; and each row's loss."""

    loss: float
    gradient: NDArray[Any]
    losses: NDArray[Any]
    loss_bound: float
    gradient_bound: NDArray[Any]
    losses_bound: NDArray[Any]


def wide(values: Tensor) -> NDArray[Any]:
    """The very numbers of a tensor [..., V], in rows."""
    return values.detach().double().numpy().reshape(-1, values.shape[-1]).astype(Wide)


def slow_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    *,
    ignore_index: int = -100,
    mask: Tensor | None = None,
    temperature: float = 1.0,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    exact: bool = False,
) -> Answer:
    """Cross-entropy by its definition; `exact` only narrows the bounds."""
    x, width = wide(logits), logits.shape[-1]
    counts = targets.reshape(-1) != ignore_index
    if mask is not None:
        counts &= mask.reshape(-1) != 0
    weight = Wide(1) / max(int(counts.sum()), 1) if reduction == "mean" else Wide(1)
    scale, share = weight / Wide(temperature), Wide(label_smoothing) / width
    unit = FLOAT64 if exact or logits.dtype is torch.float64 else FLOAT32
    losses, losses_bound = np.zeros(len(x), Wide), np.zeros(len(x), Wide)
    gradient, bound = np.zeros_like(x), np.zeros_like(x)
    for row in counts.nonzero().flatten().tolist():
        target = int(targets.reshape(-1)[row])
        with np.errstate(invalid="ignore", divide="ignore"):
            above = (x[row] - x[row].max()) / Wide(temperature)
            powers = np.exp(above)
            others = powers.sum() - powers[target]
            if powers[target] > 0.1:  # what is left of 1 must not be lost
                others = np.delete(powers, target).sum()
            total = others + powers[target]
            p = powers / total
            own = np.log1p(others / powers[target]) if p[target] > 0.1 else -above[target]
            own = own if p[target] > 0.1 else own + np.log(total)
            mean = np.log(total) - above.mean() if label_smoothing else Wide(0)
            losses[row] = (1 - Wide(label_smoothing)) * own + Wide(label_smoothing) * mean
            left = others / total
            gradient[row] = (p - share) * scale
            gradient[row, target] = (Wide(label_smoothing) - share - left) * scale

            finite = np.where(np.isfinite(above), np.abs(above), 0)
            of_powers = (EXPONENT * finite + POWER) * unit
            of_total = float((p * of_powers).sum()) + width * FLOAT64
            of_own = (EXPONENT * min(float(finite[target]), 2.0) + POWER) * unit
            losses_bound[row] = of_total + float(left) * of_own
            losses_bound[row] += 4 * FLOAT64 * (np.abs(losses[row]) + np.log(total))
            # Sums that keep the target out are as good relative to themselves.
            if exact and not label_smoothing and p[target] > 0.1:
                worst = float(np.delete(powers * of_powers, target).sum() / max(others, 1e-300))
                losses_bound[row] = np.abs(losses[row]) * (worst + of_own + 40 * FLOAT64)
            rounding = p * (of_powers + of_total + 3 * FLOAT32) + share * 2 * FLOAT32
            rounding[target] = left * (2 * of_total + 2 * FLOAT32) + width * FLOAT64
            rounding[target] += float(np.delete(p * of_powers, target).sum())
            rounding[target] += label_smoothing * FLOAT32
            bound[row] = (rounding + SMALLEST) * scale + SMALLEST
    if logits.dtype is torch.bfloat16:
        bound += np.abs(gradient) * BFLOAT16 + 1e-40
    loss, loss_bound = losses.sum() * weight, losses_bound.sum() * weight
    if not exact and logits.dtype is not torch.float64:
        loss_bound += np.abs(loss) * FLOAT32
        losses_bound = losses_bound + np.abs(losses) * FLOAT32
    return Answer(float(loss), gradient, losses, float(loss_bound), bound, losses_bound)


def slow_divergence(
    student: Tensor,
    teacher: Tensor,
    temperature: float = 1.0,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    exact: bool = False,
) -> Answer:
    """KL(teacher ‖ student) times the temperature squared, by its definition."""
    x, y, width = wide(student), wide(teacher), student.shape[-1]
    counts = np.ones(len(x), bool) if mask is None else mask.reshape(-1).numpy() != 0
    weight = Wide(1) / max(int(counts.sum()), 1) if reduction == "mean" else Wide(1)
    square = Wide(temperature) ** 2
    unit = FLOAT64 if exact or student.dtype is torch.float64 else FLOAT32
    losses, losses_bound = np.zeros(len(x), Wide), np.zeros(len(x), Wide)
    gradient, bound = np.zeros_like(x), np.zeros_like(x)
    for row in np.flatnonzero(counts):
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = []
            for logits in (x[row], y[row]):
                above = (logits - logits.max()) / Wide(temperature)
                powers = np.exp(above)
                finite = np.where(np.isfinite(above), np.abs(above), 0)
                errors = (EXPONENT * finite + POWER) * unit
                p = powers / powers.sum()
                of_total = float((p * errors).sum()) + width * FLOAT64
                parts.append((p, above - np.log(powers.sum()), finite, errors, of_total))
            (q, log_q, far_q, errors_q, total_q), (p, log_p, far_p, errors_p, total_p) = parts
            terms = np.where(p > 0, p * (log_p - log_q), 0)
            losses[row] = terms.sum() * square
            gradient[row] = (q - p) * weight * square / Wide(temperature)
            sizes = np.where(p > 0, p * (far_p + far_q), 0)
            wrong = (sizes * (errors_p + total_p)).sum() + EXPONENT * unit * sizes.sum()
            losses_bound[row] = (wrong + total_q + total_p + 8 * FLOAT64) * square
            rounding = q * (errors_q + total_q + 3 * FLOAT32) + p * (
                errors_p + total_p + 3 * FLOAT32
            )
            bound[row] = (rounding + SMALLEST) * weight * square / Wide(temperature) + SMALLEST
    if student.dtype is torch.bfloat16:
        bound += np.abs(gradient) * BFLOAT16 + 1e-40
    loss, loss_bound = losses.sum() * weight, losses_bound.sum() * weight
    if not exact and student.dtype is not torch.float64:
        loss_bound += np.abs(loss) * FLOAT32
        losses_bound = losses_bound + np.abs(losses) * FLOAT32
    return Answer(float(loss), gradient, losses, float(loss_bound), bound, losses_bound)


def assert_within(found: Any, expected: Any, bound: Any, what: str) -> None:
    """Each number differs by at most its bound; NaN and infinity are where they should be."""
    found, expected = np.asarray(found, Wide), np.asarray(expected, Wide)
    found = found.reshape(expected.shape)
    finite = np.isfinite(expected)
    assert np.array_equal(found[~finite], expected[~finite], equal_nan=True), f"{what}: not finite"
    off = np.abs(found[finite] - expected[finite]) / (np.asarray(bound, Wide)[finite] + 1e-300)
    assert off.size == 0 or np.nanmax(off) <= 1, f"{what}: {np.nanmax(off):.3g} times the bound"
    assert np.isfinite(found[finite]).all(), f"{what}: a number is not finite"


def check_answer(loss: Any, gradient: Any, expected: Answer) -> None:
    """A loss and its gradient are what they should be."""
    rows = np.ndim(loss) > 0
    answer = (
        (expected.losses, expected.losses_bound) if rows else (expected.loss, expected.loss_bound)
    )
    assert_within(np.asarray(loss, Wide).reshape(-1 if rows else ()), *answer, "loss")
    if gradient is not None:
        assert_within(gradient, expected.gradient, expected.gradient_bound, "gradient")
