"""Invariants of losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from lossleuth.gradcheck.check import Outcome
from lossleuth.gradcheck.loss_check import SIZES, check_loss

Array = NDArray[Any]


def numpy_loss(logits: Array, targets: Array) -> float:
    kept = targets >= 0
    top = logits.max(-1, keepdims=True)
    total = np.log(np.exp(logits - top).sum(-1)) + top[:, 0]
    rows = np.arange(len(targets))[kept]
    return float((total[kept] - logits[rows, targets[kept]]).mean())


def numpy_gradient(logits: Array, targets: Array) -> Array:
    kept = targets >= 0
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    shares[np.arange(len(targets))[kept], targets[kept]] -= 1
    return shares * kept[:, None] / kept.sum()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_torchs_own_loss_passes_at_every_size(dtype: torch.dtype) -> None:
    found = check_loss(F.cross_entropy, ignored=-100, dtype=dtype)
    assert [check.size for check in found] == list(SIZES)
    assert [check.outcome for check in found] == [Outcome.PASS] * len(SIZES)


def test_a_kernel_on_arrays_passes_when_right() -> None:
    assert all(check_loss(numpy_loss, numpy_gradient, ignored=-100, arrays=True))


def without_last_block(logits: Array, targets: Array) -> Array:
    """Forgets what does not fill a block of 4."""
    found = numpy_gradient(logits, targets)
    found[:, logits.shape[1] // 4 * 4 :] = 0
    return found


def test_a_kernel_that_forgets_the_last_block_fails_where_there_is_one() -> None:
    found = check_loss(numpy_loss, without_last_block, arrays=True)
    assert {check.size for check in found if not check} == {2, 3, 10, 34, 1025}


def test_a_gradient_at_masked_positions_is_named() -> None:
    def careless(logits: Array, targets: Array) -> Array:
        found = numpy_gradient(logits, targets)
        found[targets < 0, 0], found[targets < 0, 1] = 0.1, -0.1
        return found

    found = check_loss(numpy_loss, careless, sizes=(10,), ignored=-1, arrays=True)
    assert found[0].broken == ("a masked position has no gradient",)


def test_a_sign_that_is_turned_is_named() -> None:
    found = check_loss(numpy_loss, lambda x, y: -numpy_gradient(x, y), sizes=(10,), arrays=True)
    assert "the target's entry is not positive" in found[0].broken


def test_a_target_that_is_not_subtracted_breaks_the_sum() -> None:
    def wrong(logits: Tensor, targets: Tensor) -> Tensor:
        return logits.softmax(-1) / len(targets)

    found = check_loss(F.cross_entropy, wrong, sizes=(34,))
    assert "a row sums to zero" in found[0].broken
    assert found[0].row_sum > 0.1


def test_a_wrong_scale_keeps_the_invariants_and_fails_the_check() -> None:
    found = check_loss(numpy_loss, lambda x, y: 2 * numpy_gradient(x, y), sizes=(10,), arrays=True)
    assert found[0].broken == ()
    assert found[0].outcome is Outcome.FAIL
