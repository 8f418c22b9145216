"""Cross-entropy of rows on a GPU, by Triton where it is installed; nothing here needs it.

One program looks at one row, twice: a first kernel takes its largest logit and sums of powers,
torch makes loss and factors of them, and a second kernel writes the gradient, if need be where the
logits are. The formulas are those of `losses_fallback.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lossleuth.kernels.losses_fallback import RowSums, finish

try:
    import triton  # type: ignore[import-not-found, unused-ignore]  # optional
    import triton.language as tl  # type: ignore[import-not-found, unused-ignore]  # optional
except ImportError:
    triton = None

# Columns that a Triton program reads at once.
BLOCK = 2048
# Numbers of a row that the first kernel writes.
TOP, OTHERS, OWN, LOGIT, TOTAL = range(5)


def can_read(logits: Tensor) -> bool:
    """Whether Triton is there, and the logits are of a type and layout that it reads.

    >>> can_read(torch.zeros(3, 4).t())
    False
    """
    narrow = logits.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return triton is not None and narrow and logits.is_contiguous()


def cross_entropy_rows(
    logits: Tensor,
    targets: Tensor,
    counts: Tensor,
    *,
    temperature: float,
    smoothing: float,
    weight: float,
    exact: bool,
    gradient: Tensor | None,
) -> Tensor:
    """Each row's loss in float64; the gradient goes to `gradient`, which may be the logits."""
    logits = logits.detach().view(-1, logits.shape[-1])
    gradient = None if gradient is None else gradient.view(logits.shape)
    rows, width = logits.shape
    columns = targets.where(counts, 0)
    sums = torch.empty(rows, 5, dtype=torch.float64, device=logits.device)
    block = min(BLOCK, triton.next_power_of_2(width))
    inverse = 1 / temperature
    if rows:
        _sum_rows[(rows,)](
            *(logits, columns, sums, logits.stride(0), width, inverse), EXACT=exact, BLOCK=block
        )
    found = RowSums(*(sums[:, i] for i in range(5)))
    losses, factors, of_targets = finish(found, width, inverse, smoothing, weight)
    if gradient is not None and rows:
        offset = smoothing / width * weight * inverse
        _write_gradient[(rows,)](
            *(logits, gradient, columns, counts, found.top.contiguous(), factors, of_targets),
            *(logits.stride(0), gradient.stride(0), width, inverse, offset),
            EXACT=exact,
            BLOCK=block,
        )
    return losses.where(counts, 0.0)


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]  # untyped where it is not installed
    def _sum_rows(
        logits: Any,
        targets: Any,
        sums: Any,
        stride: Any,
        width: Any,
        inverse: Any,
        EXACT: tl.constexpr,
        BLOCK: tl.constexpr,
    ) -> None:
        row = tl.program_id(0).to(tl.int64)
        target = tl.load(targets + row)
        here = logits + row * stride
        lanes = tl.arange(0, BLOCK)
        tops = tl.full([BLOCK], -float("inf"), tl.float32)
        totals = tl.zeros([BLOCK], tl.float64)
        for start in range(0, width, BLOCK):
            inside = start + lanes < width
            x = tl.load(here + start + lanes, mask=inside, other=-float("inf")).to(tl.float32)
            tops = tl.maximum(tops, x)
            totals += tl.where(inside, x, 0.0).to(tl.float64)
        # A number even where all are -inf, so that differences to it are.
        top = tl.maximum(tl.max(tops, 0), -3.4028234663852886e38)
        others = tl.zeros([BLOCK], tl.float64)
        for start in range(0, width, BLOCK):
            inside = start + lanes < width
            x = tl.load(here + start + lanes, mask=inside, other=-float("inf")).to(tl.float32)
            if EXACT:
                power = tl.exp((x.to(tl.float64) - top.to(tl.float64)) * inverse)
            else:
                power = tl.exp((x - top) * inverse).to(tl.float64)
            others += tl.where(inside & (start + lanes != target), power, 0.0)
        logit = tl.load(here + target).to(tl.float32)
        if EXACT:
            own = tl.exp((logit.to(tl.float64) - top.to(tl.float64)) * inverse)
        else:
            own = tl.exp((logit - top) * inverse).to(tl.float64)
        to = sums + row * 5
        tl.store(to, top.to(tl.float64))
        tl.store(to + 1, tl.sum(others, 0))
        tl.store(to + 2, own)
        tl.store(to + 3, logit.to(tl.float64))
        tl.store(to + 4, tl.sum(totals, 0))

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]  # untyped where it is not installed
    def _write_gradient(
        logits: Any,
        gradient: Any,
        targets: Any,
        counts: Any,
        tops: Any,
        factors: Any,
        of_targets: Any,
        stride: Any,
        gradient_stride: Any,
        width: Any,
        inverse: Any,
        offset: Any,
        EXACT: tl.constexpr,
        BLOCK: tl.constexpr,
    ) -> None:
        row = tl.program_id(0).to(tl.int64)
        target = tl.load(targets + row)
        counted = tl.load(counts + row)
        top = tl.load(tops + row)
        factor = tl.load(factors + row)
        of_target = tl.load(of_targets + row)
        lanes = tl.arange(0, BLOCK)
        for start in range(0, width, BLOCK):
            columns = start + lanes
            inside = columns < width
            x = tl.load(logits + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
            if EXACT:
                power = tl.exp((x.to(tl.float64) - top) * inverse)
            else:
                power = tl.exp((x - top.to(tl.float32)) * inverse).to(tl.float64)
            value = tl.where(columns == target, of_target, power * factor - offset)
            value = tl.where(counted, value, 0.0).to(tl.float32)
            to = gradient + row * gradient_stride + columns
            tl.store(to, value.to(gradient.dtype.element_ty), mask=inside)
