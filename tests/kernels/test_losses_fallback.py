"""The losses by torch; the tests of the losses run on it as well."""

from __future__ import annotations

import pytest
import torch
from slow_losses import check_answer, slow_cross_entropy, slow_divergence

from lossleuth.kernels import losses_fallback
from lossleuth.kernels.losses_fallback import cross_entropy_rows, divergence_rows


@pytest.mark.parametrize("portion", [1, 100, 1 << 20])
@pytest.mark.parametrize("shape", [(7, 33), (2, 5, 33)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_portions_of_any_size_give_the_reference(
    portion: int, shape: tuple[int, ...], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses_fallback, "PORTION", portion)
    torch.manual_seed(0)
    logits, teacher = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    targets = torch.randint(0, 33, shape[:-1])
    targets.view(-1)[2] = -100
    expected = slow_cross_entropy(logits, targets, reduction="sum", label_smoothing=0.1)
    gradient = torch.empty_like(logits)
    losses = cross_entropy_rows(
        logits,
        targets.view(-1),
        targets.view(-1) != -100,
        temperature=1.0,
        smoothing=0.1,
        weight=1.0,
        exact=False,
        gradient=gradient,
    )
    check_answer(losses, gradient, expected)
    counts = torch.arange(len(losses)) != 3
    expected = slow_divergence(logits, teacher, mask=counts, reduction="sum")
    losses = divergence_rows(
        logits, teacher, counts, temperature=1.0, weight=1.0, exact=False, gradient=logits
    )
    check_answer(losses, logits, expected)
