"""What the kernels must return, computed slowly: numpy, long double sums, no blocks, no threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lossleuth.native.columns import COLUMNS
from lossleuth.native.statistics import ParameterPass

Row = dict[str, float]
Case = dict[str, Any]

# Of these the sum is compared; the direction is computed in float32 by the kernels.
DIRECTION = ("wanted_squares", "swallowed_squares")


def values(tensor: Tensor) -> NDArray[np.float64]:
    return tensor.detach().to(torch.float64).numpy().reshape(-1)


def total(array: NDArray[np.float64]) -> float:
    return float(array.astype(np.longdouble).sum())


def reference(
    before: Tensor,
    after: Tensor,
    gradient: Tensor | None,
    first: Tensor | None = None,
    second: Tensor | None = None,
    threshold: float = np.nan,
) -> Row:
    """The row of one tensor that is seen whole."""
    row = dict.fromkeys(COLUMNS, np.nan)
    with np.errstate(all="ignore"):
        if gradient is not None:
            g = values(gradient)
            row["gradient_sum"] = total(g)
            row["gradient_squares"] = total(g**2)
            row["gradient_largest"] = float(np.abs(g).max()) if g.size else np.nan
            row["gradient_zeros"] = sum(1 for number in g.tolist() if number == 0)
            row["gradient_nonfinite"] = int(g.size - np.isfinite(g).sum())
        p, b = values(after), values(before)
        row["weight_squares"] = total(p**2)
        row["update_squares"] = total((p - b) ** 2)
        row["weight_nonfinite"] = int(p.size - np.isfinite(p).sum())
        numerator = gradient if first is None else first
        if numerator is not None:
            u = values(numerator)
            if second is not None:
                u = u / (np.sqrt(values(second)) + np.fmax(threshold, 1e-30))
            row["wanted_squares"] = total(u**2)
            row["swallowed_squares"] = total(u[p == b] ** 2)
        if first is not None:
            row["first_squares"] = total(values(first) ** 2)
        if second is not None:
            v = values(second)
            row["second_sum"] = total(v)
            if v.size:
                row["second_smallest"] = np.nan if np.isnan(row["second_sum"]) else float(v.min())
            if not np.isnan(threshold):
                used = [t.dtype for t in (after, numerator, second) if t is not None]
                real = np.float64 if torch.float64 in used else np.float32
                roots = np.sqrt(v.astype(real))
                row["second_under_epsilon"] = int((roots < real(threshold)).sum())
        row["seen_share"] = 1.0
    return row


def assert_same(found: NDArray[np.float64], expected: Row, scale: float = 0.0) -> None:
    """Equal to rounding; `scale` is the sum of the gradient's sizes, which its sum may cancel."""
    row = dict(zip(COLUMNS, found.tolist(), strict=True))
    for name in COLUMNS:
        relative = 1e-6 if name in DIRECTION else 1e-12
        absolute = 1e-13 * scale if name == "gradient_sum" else 0.0
        if name in DIRECTION:
            absolute = 1e-76  # below the smallest normal float32, squared
        np.testing.assert_allclose(
            row[name], expected[name], rtol=relative, atol=absolute, err_msg=name
        )


def case(
    dtype: torch.dtype = torch.float32,
    count: int = 1000,
    *,
    moment: torch.dtype | None = None,
    gradient: torch.dtype | None = None,
    seed: int = 0,
) -> Case:
    """A weight before and after, its gradient and both moments."""
    torch.manual_seed(seed)
    before = torch.randn(count, dtype=torch.float64)
    after = before - 1e-2 * torch.randn(count, dtype=torch.float64)
    after = torch.where(torch.rand(count) < 0.25, before, after)
    g = torch.randn(count, dtype=torch.float64) * (torch.rand(count) < 0.9)
    return {
        "before": before.to(dtype),
        "after": after.to(dtype),
        "gradient": g.to(gradient or dtype),
        "first": (0.1 * torch.randn(count, dtype=torch.float64)).to(moment or dtype),
        "second": torch.rand(count, dtype=torch.float64).square().to(moment or dtype),
        "threshold": 0.05,
    }


def measure(*cases: Case, steps: int = 1, **options: Any) -> NDArray[np.float64]:
    """Run both passes over the weights of these cases."""
    weights = [nn.Parameter(c["before"].clone()) for c in cases]
    passes = ParameterPass(weights, **options)
    for _ in range(steps):
        for weight, c in zip(weights, cases, strict=True):
            weight.data.copy_(c["before"])
        passes.before_update(weights, [c["gradient"] for c in cases])
        for weight, c in zip(weights, cases, strict=True):
            weight.data.copy_(c["after"])
        found = passes.after_update(
            *([c[name] for c in cases] for name in ("first", "second", "threshold"))
        )
    assert passes.reasons == {}
    return found


def check_case(c: Case, **options: Any) -> None:
    scale = 0.0 if c["gradient"] is None else float(c["gradient"].double().abs().nan_to_num().sum())
    assert_same(measure(c, **options)[0], reference(**c), scale=scale)
