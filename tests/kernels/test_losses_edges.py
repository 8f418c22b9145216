"""Cross-entropy at the edges: what is not a number, nothing to do, memory, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import pytest
import torch
from loss_batches import FLOATS, LAYOUTS, batch, check_autograd
from torch import Tensor
from torch.nn import functional as F

from lossleuth.kernels import cross_entropy, cross_entropy_with_gradient
from lossleuth.kernels.supervision import NothingSupervised


@pytest.mark.parametrize("width", [20, 5000])
@pytest.mark.parametrize("exact", [False, True])
def test_logits_of_minus_infinity_have_no_probability(
    kernels: str, width: int, exact: bool
) -> None:
    logits, targets = batch(4, width)
    logits[:, : width // 2] = -math.inf
    targets = targets.clamp(min=width // 2)
    check_autograd(logits, targets, exact=exact)
    _, gradient, _ = cross_entropy_with_gradient(logits, targets, exact=exact)
    assert (gradient[:, : width // 2] == 0).all()
    # A target that is ruled out: an infinite loss with a finite gradient, as in torch.
    targets[0] = 0
    loss, gradient, _ = cross_entropy_with_gradient(logits, targets, exact=exact)
    assert loss == math.inf and gradient.isfinite().all() and gradient[0, 0] == -0.25


@pytest.mark.parametrize("width", [20, 5000])
@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_nan_and_infinity_give_nan_in_their_row_alone(kernels: str, width: int, odd: float) -> None:
    for exact in (False, True):
        logits, targets = batch(3, width)
        logits[1, width - 1] = odd
        targets[1] = 0
        assert_nan_in_row_one(logits, targets, exact)


@pytest.mark.parametrize("width", [20, 5000])
def test_a_row_of_nothing_is_nan_as_in_torch(kernels: str, width: int) -> None:
    for exact in (False, True):
        logits, targets = batch(3, width)
        logits[1] = -math.inf
        assert F.cross_entropy(logits, targets).isnan()
        assert_nan_in_row_one(logits, targets, exact)


def assert_nan_in_row_one(logits: Tensor, targets: Tensor, exact: bool) -> None:
    losses = cross_entropy(logits, targets, reduction="none", exact=exact)
    assert losses.isnan().tolist() == [False, True, False]
    _, gradient, _ = cross_entropy_with_gradient(logits, targets, exact=exact)
    assert gradient[1].isnan().all() and not gradient[::2].isnan().any()
    # What does not count is not looked at.
    targets[1] = -100
    loss, gradient, _ = cross_entropy_with_gradient(logits, targets, exact=exact)
    assert math.isfinite(loss) and (gradient[1] == 0).all()


@pytest.mark.parametrize("width", [20, 5000])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_huge_logits_do_not_overflow(kernels: str, width: int, dtype: torch.dtype) -> None:
    logits, targets = batch(6, width)
    logits = (logits.sign() * 1e4).to(dtype)
    for exact in (False, True):
        check_autograd(logits, targets, exact=exact)
    check_autograd(torch.full((2, width), -1e4), targets[:2])


def test_a_mean_over_nothing_is_refused(kernels: str) -> None:
    logits, targets = torch.randn(2, 3, 5), torch.full((2, 3), -100)
    for function in (cross_entropy, cross_entropy_with_gradient):
        with pytest.raises(NothingSupervised, match="found none in a batch of \\(2, 3\\)"):
            function(logits, targets)
        with pytest.raises(NothingSupervised):
            function(logits, targets.clamp(min=0), mask=torch.zeros(2, 3, dtype=torch.bool))
    leaf = logits.requires_grad_()
    for reduction in ("sum", "none"):
        leaf.grad = None
        cross_entropy(leaf, targets, reduction=reduction).sum().backward()  # type: ignore[arg-type]  # a loop
        assert leaf.grad is not None and (leaf.grad == 0).all()


def test_no_rows_at_all(kernels: str) -> None:
    for shape in ((0, 5), (0, 3, 5), (2, 0, 5)):
        logits = torch.zeros(shape, requires_grad=True)
        targets = torch.zeros(shape[:-1], dtype=torch.long)
        with pytest.raises(NothingSupervised):
            cross_entropy(logits, targets)
        assert cross_entropy(logits, targets, reduction="sum").item() == 0
        assert cross_entropy(logits, targets, reduction="none").shape == shape[:-1]


def test_bad_targets_are_refused_with_their_place(kernels: str) -> None:
    logits = torch.zeros(2, 3, 5)
    for wrong in (5, -1, 10**12):
        targets = torch.tensor([[0, 1, 2], [-100, wrong, 4]])
        match = f"expected targets from 0 to 4, or -100 .* found {wrong} at position \\(1, 1\\)"
        with pytest.raises(ValueError, match=match):
            cross_entropy(logits, targets)
        # Not where a mask says that the position does not count.
        mask = torch.tensor([[True] * 3, [True, False, True]])
        assert cross_entropy(logits, targets, mask=mask).item() == pytest.approx(math.log(5))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int16], ids=str)
def test_targets_of_any_integer_type(kernels: str, dtype: torch.dtype) -> None:
    logits, targets = batch(6, 30)
    given = targets.to(dtype)
    assert torch.equal(cross_entropy(logits, given), cross_entropy(logits, targets))
    assert torch.equal(
        cross_entropy(logits, given[::2].repeat(2)[:6]),
        cross_entropy(logits, targets[::2].repeat(2)[:6]),
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.0}, "expected a temperature above 0, found 0.0"),
        ({"temperature": math.nan}, "expected a temperature above 0"),
        ({"label_smoothing": 1.5}, "expected label_smoothing from 0 to 1, found 1.5"),
        ({"reduction": "median"}, "expected reduction 'mean', 'sum' or 'none', found 'median'"),
        ({"mask": torch.ones(4, dtype=torch.bool)}, "expected a mask of shape \\(3,\\)"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cross_entropy(*batch(3, 5), **options)


def test_shapes_and_types_that_do_not_fit_are_refused() -> None:
    logits, targets = batch(3, 5)
    with pytest.raises(ValueError, match="expected logits of shape \\[N, V\\] or \\[B, T, V\\]"):
        cross_entropy(logits[0], targets[0])
    with pytest.raises(ValueError, match="expected targets of shape \\(3,\\)"):
        cross_entropy(logits, targets[:2])
    with pytest.raises(TypeError, match="expected floating-point logits"):
        cross_entropy(logits.long(), targets)
    with pytest.raises(TypeError, match="expected integer targets"):
        cross_entropy(logits, targets.float())
    with pytest.raises(TypeError, match="expected a mask of booleans"):
        cross_entropy(logits, targets, mask=torch.ones(3))


@pytest.mark.parametrize("layout", ["rows", "without the last position", "misaligned"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_in_place_the_gradient_is_where_the_logits_were(
    kernels: str, layout: str, dtype: torch.dtype
) -> None:
    for width in (34, 2050):
        values = LAYOUTS[layout](5, width).normal_().to(dtype)
        targets = torch.zeros(values.shape[:-1], dtype=torch.long)
        expected = cross_entropy_with_gradient(values, targets)[1]
        root = values.detach().requires_grad_()
        logits = root * 1
        address = logits.data_ptr()
        cross_entropy(logits, targets, inplace=True).backward()
        assert torch.equal(logits, expected) and logits.data_ptr() == address
        assert root.grad is not None and torch.equal(root.grad, expected)
        given = values.clone()
        _, gradient, _ = cross_entropy_with_gradient(given, targets, inplace=True)
        assert gradient.data_ptr() == given.data_ptr() and torch.equal(given, expected)


def test_in_place_is_refused_where_autograd_needs_the_logits(kernels: str) -> None:
    leaf, targets = torch.randn(4, 9, requires_grad=True), torch.zeros(4, dtype=torch.long)
    with pytest.raises(ValueError, match="found a leaf that requires grad"):
        cross_entropy(leaf, targets, inplace=True)
    with pytest.raises(ValueError, match="found the result of ExpBackward0"):
        cross_entropy(leaf.exp(), targets, inplace=True)
    with pytest.raises(ValueError, match="found the result of TanhBackward0"):
        cross_entropy(leaf.tanh().view(2, 2, 9), targets.view(2, 2), inplace=True)
    with pytest.raises(ValueError, match=r"that require grad: pass logits\.detach"):
        cross_entropy_with_gradient(leaf * 1, targets, inplace=True)
    with pytest.raises(ValueError, match="a place of its own"):
        cross_entropy((leaf[:1] * 1).expand(4, 9), targets, inplace=True)
    with pytest.raises(ValueError, match="rows lie in one piece"):
        cross_entropy((leaf * 1).t().contiguous().t(), targets, inplace=True)
    # Another loss of the same logits: torch itself refuses, since they are marked as changed.
    logits = leaf * 1
    other = logits.logsumexp(-1).square().mean()
    loss = cross_entropy(logits, targets, inplace=True) + other
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_in_place_and_twice_is_refused(kernels: str) -> None:
    leaf, targets = torch.randn(4, 9, requires_grad=True), torch.zeros(4, dtype=torch.long)
    loss = cross_entropy(leaf * 1, targets, inplace=True)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="expected one backward pass, found a second"):
        loss.backward()


def test_a_graph_that_is_kept_can_be_used_again(kernels: str) -> None:
    leaf, targets = torch.randn(4, 9, requires_grad=True), torch.zeros(4, dtype=torch.long)
    loss = cross_entropy(leaf, targets)
    once = torch.autograd.grad(loss, leaf, retain_graph=True)[0]
    kept = once.clone()
    for _ in range(3):
        loss.backward(retain_graph=True)
    assert leaf.grad is not None
    torch.testing.assert_close(leaf.grad, 3 * kept)
    assert torch.equal(once, kept)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_a_second_derivative_is_refused_in_plain_words(kernels: str) -> None:
    leaf, targets = torch.randn(4, 9, requires_grad=True), torch.zeros(4, dtype=torch.long)
    loss = cross_entropy(leaf, targets)
    with pytest.raises(RuntimeError, match="has no derivative of its own; use"):
        torch.autograd.grad(loss, leaf, create_graph=True)


@pytest.mark.parametrize("width", [2, 34, 128, 129])
@pytest.mark.parametrize("exact", [False, True])
def test_rows_of_any_width_hand_on_what_is_no_number(width: int, exact: bool) -> None:
    """Rows of up to 128 columns share vectors, and their logarithm is our own."""
    logits = torch.zeros(5, width)
    logits[1, 1] = math.nan
    logits[2, 1] = math.inf
    logits[3] = -math.inf
    logits[4, 0] = -math.inf
    targets = torch.zeros(5, dtype=torch.long)
    losses = cross_entropy(logits, targets, reduction="none", exact=exact)
    assert losses[0].item() == pytest.approx(math.log(width), rel=2**-23)
    assert losses[1:4].isnan().all()
    assert losses[4] == math.inf


def test_the_logarithm_of_rows_that_share_vectors_is_right_to_the_last_digits() -> None:
    """Sums from 1 to 128, by rows of two columns and of many, against fifty digits."""
    generator = torch.Generator().manual_seed(0)
    two = torch.randn(300, 2, generator=generator, dtype=torch.float64) * 4
    many = torch.rand(300, 128, generator=generator, dtype=torch.float64) * 2
    many[:, 3] -= torch.linspace(0, 9, 300)
    for wide, target in ((two, 0), (many, 3)):
        logits = wide.float()
        targets = torch.full((len(logits),), target)
        found = cross_entropy(logits, targets, reduction="none", exact=True)
        with localcontext() as context:
            context.prec = 50
            for row, loss in zip(logits.tolist(), found.tolist(), strict=True):
                powers = [Decimal(x).exp() for x in row]
                true = float((sum(powers) / powers[target]).ln())
                assert abs(loss - true) <= 1e-15 * true
