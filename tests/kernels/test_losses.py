"""Cross-entropy: against the slow reference at every size, layout and option."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loss_batches import FLOATS, LAYOUTS, batch, check_autograd
from needs import need_native
from slow_losses import slow_cross_entropy
from torch.nn import functional as F

from lossleuth.kernels import cross_entropy, cross_entropy_with_gradient
from lossleuth.native import library as native

WIDTHS = [2, 3, 10, 34, 100, 127, 128, 129, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 5000, 32000]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_width_gives_the_reference(
    kernels: str, width: int, dtype: torch.dtype, exact: bool
) -> None:
    logits, targets = batch(18 if width < 3000 else 3, width)
    targets[1] = -100
    check_autograd(logits.to(dtype), targets, exact=exact)


@pytest.mark.parametrize("exact", [False, True])
def test_the_widest_vocabulary(kernels: str, exact: bool) -> None:
    logits, targets = batch(2, 256_000)
    check_autograd(logits, targets, exact=exact)


@pytest.mark.parametrize("width", [34, 2049])
@pytest.mark.parametrize("temperature", [0.5, 1, 2, 2.5])
@pytest.mark.parametrize("label_smoothing", [0, 0.05, 0.1, 1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_temperature_smoothing_and_reductions(
    kernels: str, width: int, temperature: float, label_smoothing: float, reduction: str
) -> None:
    logits, targets = batch(5, width)
    options = {"temperature": temperature, "label_smoothing": label_smoothing}
    for exact in (False, True):
        check_autograd(logits, targets, reduction=reduction, exact=exact, **options)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    layout=st.sampled_from(sorted(LAYOUTS)),
    rows=st.integers(1, 20),
    width=st.one_of(st.integers(1, 140), st.sampled_from([2047, 2050])),
    dtype=st.sampled_from(FLOATS),
    temperature=st.sampled_from([1.0, 0.7, 3.0]),
    smoothing=st.sampled_from([0.0, 0.1]),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    exact=st.booleans(),
    masked=st.booleans(),
    upstream=st.sampled_from([1.0, 0.25, -2.0]),
    seed=st.integers(0, 99),
)
def test_any_layout_gives_the_reference(
    kernels: str,
    layout: str,
    rows: int,
    width: int,
    dtype: torch.dtype,
    temperature: float,
    smoothing: float,
    reduction: str,
    exact: bool,
    masked: bool,
    upstream: float,
    seed: int,
) -> None:
    logits = LAYOUTS[layout](rows, width).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    logits.copy_(torch.randn(logits.shape, generator=generator) * 3)
    targets = torch.randint(0, width, logits.shape[:-1], generator=generator)
    mask = torch.rand(targets.shape, generator=generator) < 0.7 if masked else None
    if mask is not None:
        mask.view(-1)[0] = True
        targets.view(-1)[1::5] = -100
    check_autograd(
        logits,
        targets,
        upstream,
        mask=mask,
        temperature=temperature,
        label_smoothing=smoothing,
        reduction=reduction,
        exact=exact,
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_other_types_are_left_to_torch(kernels: str, dtype: torch.dtype) -> None:
    logits, targets = batch(4, 50)
    leaf = logits.to(dtype).requires_grad_()
    loss = cross_entropy(leaf, targets)
    loss.backward()
    expected = F.cross_entropy(leaf.detach().double(), targets)
    assert loss.dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    assert leaf.grad is not None and leaf.grad.dtype is dtype


def test_it_is_torch_where_torch_is_right(kernels: str) -> None:
    logits, targets = batch(40, 70)
    targets[::7] = -100
    for options in ({}, {"label_smoothing": 0.1}, {"reduction": "sum"}, {"reduction": "none"}):
        theirs = F.cross_entropy(logits.double(), targets, **options)
        found = cross_entropy(logits, targets, **options, exact=True)
        torch.testing.assert_close(found, theirs, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("width", [34, 3000, 100_000])
def test_a_target_that_is_nearly_certain_is_exact(kernels: str, width: int) -> None:
    logits, targets = batch(20, width, scale=1.0)
    logits[torch.arange(20), targets] += 20 + math.log(width)
    expected = slow_cross_entropy(logits, targets)
    assert 0 < expected.loss < 1e-7
    leaf = logits.requires_grad_()
    loss = cross_entropy(leaf, targets, exact=True)
    loss.backward()
    assert loss.item() == pytest.approx(expected.loss, rel=1e-15, abs=0)
    assert leaf.grad is not None
    off = np.abs(leaf.grad.double().numpy() / expected.gradient.astype(float) - 1)
    assert off.max() <= 2e-7
    # Torch's own gradient of the target is lost altogether there.
    theirs = torch.autograd.grad(F.cross_entropy(leaf, targets), leaf)[0]
    at = (torch.arange(20), targets)
    assert (theirs[at] == 0).any() and (leaf.grad[at] != 0).all()


def test_even_without_exact_a_certain_target_keeps_its_gradient(kernels: str) -> None:
    logits = torch.tensor([[18.0, 0.0, -1.0]], requires_grad=True)
    cross_entropy(logits, torch.tensor([0])).backward()
    expected = slow_cross_entropy(logits, torch.tensor([0])).gradient[0].astype(float)
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad[0].double(), expected, rtol=5e-6)


@pytest.mark.parametrize("scale", [1.0, 10.0, 50.0])
@pytest.mark.parametrize("width", [34, 2004, 32000])
def test_exact_is_exact(kernels: str, width: int, scale: float) -> None:
    logits, targets = batch(6, width, scale)
    loss, gradient, _ = cross_entropy_with_gradient(logits, targets, exact=True)
    expected = slow_cross_entropy(logits, targets)
    assert loss == pytest.approx(expected.loss, rel=1e-15, abs=0)
    true = expected.gradient.astype(float)
    held = np.abs(true) > 2e-37  # smaller ones float32 cannot hold
    assert np.abs(gradient.double().numpy()[held] / true[held] - 1).max() <= 2e-7


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(3000, 34), (700, 2004), (12, 50_000)])
def test_threads_do_not_change_a_bit(
    rows: int, width: int, exact: bool, dtype: torch.dtype
) -> None:
    need_native()
    logits, targets = batch(rows, width)
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            found.append(cross_entropy_with_gradient(logits.to(dtype), targets, exact=exact))
        finally:
            torch.set_num_threads(1)
    assert found[0][0] == found[1][0] == found[2][0]
    assert torch.equal(found[0][1], found[1][1]) and torch.equal(found[0][1], found[2][1])


@pytest.mark.parametrize("width", [34, 2004])
def test_both_kernels_give_the_same(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    need_native()
    logits, targets = batch(30, width)
    ours = cross_entropy_with_gradient(logits, targets, exact=True)
    monkeypatch.setattr(native, "load", lambda: None)
    torchs = cross_entropy_with_gradient(logits, targets, exact=True)
    assert ours[0] == pytest.approx(torchs[0], rel=1e-15)
    torch.testing.assert_close(ours[1], torchs[1], rtol=4e-7, atol=1e-38)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_arrays_give_numpy_arrays(kernels: str, dtype: type[np.floating[Any]]) -> None:
    logits, targets = batch(6, 40)
    loss, expected, count = cross_entropy_with_gradient(logits, targets)
    array, columns = logits.numpy().astype(dtype), targets.numpy()
    found, gradient, counted = cross_entropy_with_gradient(array, columns)
    assert isinstance(gradient, np.ndarray) and gradient.dtype == dtype and counted == count == 6
    assert found == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-9)
    # Backwards, read-only, and in place.
    again = cross_entropy_with_gradient(array[::-1], columns[::-1])
    np.testing.assert_array_equal(again[1], gradient[::-1])
    array.flags.writeable = False
    assert cross_entropy_with_gradient(array, columns)[0] == found
    with pytest.raises(ValueError, match="read-only array"):
        cross_entropy_with_gradient(array, columns, inplace=True)
    array = array.copy()
    written = cross_entropy_with_gradient(array, columns, inplace=True)[1]
    assert written is array
    np.testing.assert_array_equal(array, gradient)


def test_a_gradient_by_hand_is_of_one_number() -> None:
    with pytest.raises(ValueError, match="a gradient is of one number"):
        cross_entropy_with_gradient(*batch(3, 5), reduction="none")  # type: ignore[arg-type]  # refused
