"""The loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lossleuth.reference.train import loss
from lossleuth.reference.train.data import IGNORED
from lossleuth.reference.train.loss import (
    NoSupervisedToken,
    mean_loss,
    supervised_count,
    token_losses,
)
from lossleuth.reference.train.oracle_layers import cross_entropy


def example() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 7, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 7, (3, 5), generator=generator)
    targets[0, 2:] = IGNORED
    targets[2] = IGNORED
    return logits, targets


def test_the_loss_is_the_oracles() -> None:
    logits, targets = example()
    expected, _ = cross_entropy(logits.numpy(), targets.numpy())
    assert np.isclose(mean_loss(logits, targets).item(), expected, rtol=1e-14)


def test_micro_batches_add_up_to_the_whole_batch_whatever_their_sizes() -> None:
    logits, targets = example()
    count = supervised_count(targets)
    parts = sum(
        mean_loss(logits[i : i + 1], targets[i : i + 1], count).item() for i in range(len(targets))
    )
    assert np.isclose(parts, mean_loss(logits, targets).item(), rtol=1e-14)


def test_a_batch_with_no_supervised_token_raises_and_never_gives_nan() -> None:
    logits, targets = example()
    with pytest.raises(NoSupervisedToken, match="found none in a batch of"):
        mean_loss(logits, torch.full_like(targets, IGNORED))


def test_token_losses_sum_to_the_mean_and_are_zero_where_ignored() -> None:
    logits, targets = example()
    losses = token_losses(logits, targets)
    assert losses[targets == IGNORED].eq(0).all()
    mean = losses.sum() / supervised_count(targets)
    assert np.isclose(mean.item(), mean_loss(logits, targets).item(), rtol=1e-14)


def true_gradient(logits: torch.Tensor, targets: torch.Tensor, count: int) -> torch.Tensor:
    """Softmax less one at the target, in float64, by its definition."""
    supervised = targets != IGNORED
    one_hot = torch.nn.functional.one_hot(targets.clamp(min=0), logits.shape[-1])
    return (logits.double().softmax(-1) - one_hot) * supervised[..., None] / count


@pytest.mark.parametrize("whole", [True, False], ids=["one batch", "part of a step"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kernel", ["auto", "lossleuth", "torch"])
def test_whoever_computes_it_loss_and_gradient_are_right(
    kernel: str, dtype: torch.dtype, whole: bool
) -> None:
    wide, targets = example()
    logits = wide.to(dtype).requires_grad_()
    count = supervised_count(targets) * (1 if whole else 3)
    found = mean_loss(logits, targets, count, kernel)
    found.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    expected, _ = cross_entropy(logits.detach().double().numpy(), targets.numpy())
    expected *= supervised_count(targets) / count
    assert found.dtype is torch.float32
    # An exponential, a sum, a logarithm and a quotient, each off by a last digit or two.
    assert abs(found.item() - expected) <= 8 * 2**-24 * max(1, expected)
    true = true_gradient(logits.detach(), targets, count)
    assert logits.grad is not None and logits.grad.dtype is dtype
    # Rounded to its own type once by the kernel, and once more where it is scaled afterwards.
    allowed = 2 * torch.finfo(dtype).eps * true.abs() + 8 * 2**-24 / count
    assert ((logits.grad.double() - true).abs() <= allowed).all()


@pytest.mark.parametrize(
    ("kernel", "dtype", "ours"),
    [
        ("auto", torch.float32, True),
        ("auto", torch.bfloat16, True),
        ("auto", torch.float64, False),
        ("lossleuth", torch.float64, True),
        ("torch", torch.float32, False),
    ],
)
def test_the_setting_says_who_computes_the_loss(
    kernel: str, dtype: torch.dtype, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    real = loss.cross_entropy

    def noted(*arguments: Any, **options: Any) -> torch.Tensor:
        called.append("ours")
        return real(*arguments, **options)

    monkeypatch.setattr(loss, "cross_entropy", noted)
    logits, targets = example()
    mean_loss(logits.to(dtype), targets, kernel=kernel)
    token_losses(logits.to(dtype), targets, kernel)
    assert called == ["ours", "ours"] * ours


def test_a_part_of_a_step_without_a_supervised_token_adds_nothing() -> None:
    logits, targets = example()
    x = logits.float().requires_grad_()
    part = mean_loss(x, torch.full_like(targets, IGNORED), 5)
    part.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert part.item() == 0 and x.grad is not None and x.grad.eq(0).all()


@pytest.mark.parametrize(
    ("kernel", "device", "said"),
    [
        ("auto", "cpu", "lossleuth.kernels, native"),
        ("auto", "cuda", "torch's cross_entropy"),
        ("lossleuth", "cuda", "lossleuth.kernels, without the native library"),
        ("torch", "cpu", "torch's cross_entropy"),
    ],
)
def test_who_computes_the_loss_is_said(
    kernel: str, device: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss.native, "why_absent", lambda: None)
    assert loss.who_computes(kernel, device) == f"loss: computed by {said}"
    monkeypatch.setattr(loss.native, "why_absent", lambda: "no compiler")
    assert "native" not in loss.who_computes(kernel, device).replace("the native library", "")
