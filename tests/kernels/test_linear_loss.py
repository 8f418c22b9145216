"""Cross-entropy of a linear layer, against the same in float64 with all logits there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.kernels import linear_cross_entropy, linear_loss


def layer(
    places: tuple[int, ...], depth: int, width: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(width)
    hidden = torch.randn(*places, depth, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(width, depth, generator=generator).to(dtype).requires_grad_()
    bias = torch.randn(width, generator=generator).to(dtype).requires_grad_()
    return hidden, weight, bias, torch.randint(0, width, places, generator=generator)


def in_float64(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, **options: Any
) -> list[Tensor]:
    leaves = [x.detach().double().requires_grad_() for x in (hidden, weight, bias) if x is not None]
    logits = F.linear(leaves[0], leaves[1], leaves[2] if bias is not None else None)
    temperature = options.pop("temperature", 1.0)
    loss = F.cross_entropy(logits.flatten(0, -2) / temperature, targets.flatten(), **options)
    return [loss.detach(), *torch.autograd.grad(loss, leaves)]


@pytest.mark.parametrize("buffer", [1, 5000, 1 << 26])
@pytest.mark.parametrize("places", [(1,), (37,), (3, 7)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_chunks_of_any_size_give_the_same(
    kernels: str,
    buffer: int,
    places: tuple[int, ...],
    with_bias: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linear_loss, "BUFFER", buffer)
    for width in (34, 300):
        hidden, weight, bias, targets = layer(places, 16, width)
        targets.view(-1)[1::4] = -100
        given = bias if with_bias else None
        options = {"label_smoothing": 0.1, "temperature": 2.0}
        for reduction in ("mean", "sum"):
            check_linear(hidden, weight, given, targets, reduction=reduction, **options)


def check_linear(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, **options: Any
) -> None:
    """Logits of size L are off by some sqrt(depth) roundings of theirs, and powers by as much."""
    expected = in_float64(hidden, weight, bias, targets, **options)
    leaves = [x for x in (hidden, weight, bias) if x is not None]
    loss = linear_cross_entropy(hidden, weight, targets, bias=bias, **options)
    found = [loss.detach(), *torch.autograd.grad(loss * 3, leaves)]
    size = float((hidden.detach() @ weight.detach().t()).abs().max()) + 1
    unit = 2.0**-24 if hidden.dtype is torch.float32 else 2.0**-8
    wrong = unit * size * hidden.shape[-1] ** 0.5 * 4
    for number, (got, want) in enumerate(zip(found, expected, strict=True)):
        want = want if number == 0 else 3 * want
        scale = float(want.abs().max())
        assert (got.double() - want).abs().max() <= wrong * scale + 1e-7 * scale
        assert number == 0 or got.dtype is hidden.dtype


def test_brain_floats_accumulate_in_float32(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_loss, "BUFFER", 4 * 50 * 2)
    hidden, weight, bias, targets = layer((200,), 8, 50, torch.bfloat16)
    # Each chunk adds as much as the first: a sum of 50 of them in eight bits would stand still.
    check_linear(hidden, weight, bias, targets, reduction="sum")


def test_a_mask_and_no_gradient_at_all(kernels: str) -> None:
    hidden, weight, _, targets = layer((12,), 8, 50)
    mask = torch.arange(12) < 5
    with torch.no_grad():
        found = linear_cross_entropy(hidden, weight, targets, mask=mask, exact=True)
        logits = (hidden @ weight.t())[:5]
    assert found.dtype is torch.float64 and not found.requires_grad
    torch.testing.assert_close(
        found, F.cross_entropy(logits.double(), targets[:5]), rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("frozen", [0, 1])
def test_what_is_frozen_gets_no_gradient(kernels: str, frozen: int) -> None:
    hidden, weight, _, targets = layer((12,), 8, 50)
    both = [hidden, weight]
    expected = in_float64(hidden, weight, None, targets)[2 - frozen]
    both[frozen] = both[frozen].detach()
    linear_cross_entropy(both[0], both[1], targets).backward()
    assert both[frozen].grad is None
    gradient = both[1 - frozen].grad
    assert gradient is not None
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-4, atol=1e-6)


def test_a_kept_graph_can_be_used_again_but_not_derived_twice(kernels: str) -> None:
    hidden, weight, _, targets = layer((12,), 8, 50)
    loss = linear_cross_entropy(hidden, weight, targets)
    first, second = (torch.autograd.grad(loss, weight, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second) and first.data_ptr() != second.data_ptr()
    with pytest.raises(RuntimeError, match="has no derivative of its own"):
        torch.autograd.grad(loss, weight, create_graph=True)


def test_what_does_not_fit_is_refused() -> None:
    hidden, weight, bias, targets = layer((12,), 8, 50)
    with pytest.raises(ValueError, match="a weight \\[V, D\\]"):
        linear_cross_entropy(hidden, weight.t(), targets)
    with pytest.raises(TypeError, match="of one floating-point type"):
        linear_cross_entropy(hidden, weight.bfloat16(), targets)
    with pytest.raises(ValueError, match="expected a bias of shape \\(50,\\)"):
        linear_cross_entropy(hidden, weight, targets, bias=bias[1:])
    with pytest.raises(ValueError, match="the weight's gradient is of one number"):
        linear_cross_entropy(hidden, weight, targets, reduction="none")  # type: ignore[arg-type]  # refused
    with pytest.raises(ValueError, match="found 50 at position 3"):
        linear_cross_entropy(hidden, weight, targets.index_fill(0, torch.tensor(3), 50))
