"""Losses of whole batches: masks, means, chunks, and what other libraries make of the same."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth import check_gradient
from lossleuth.reference.distil import losses
from lossleuth.reference.distil.losses import (
    Rows,
    cross_entropy,
    forward_kl,
    jensen_shannon,
    logit_losses,
    reverse_kl,
    sorted_difference,
    top_k_kl,
)
from lossleuth.reference.distil.row_terms import CrossEntropy, ForwardKL
from lossleuth.reference.train.data import IGNORED
from lossleuth.reference.train.loss import NoSupervisedToken, mean_loss

B, T, V = 3, 5, 13
# Two ways to sum some hundred products in float64.
CLOSE = 256 * 2**-52

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {
    "forward": lambda s, t, y: forward_kl(s, t, y, temperature=2.0),
    "reverse": lambda s, t, y: reverse_kl(s, t, y, temperature=2.0),
    "jensen_shannon": lambda s, t, y: jensen_shannon(s, t, y, beta=0.3, temperature=2.0),
    "top_k": lambda s, t, y: top_k_kl(s, t, y, k=4, temperature=2.0),
    "entropy": lambda s, t, y: cross_entropy(s, y, smoothing=0.1),
    "sorted": lambda s, t, y: sorted_difference(s, t, y, temperature=2.0),
}


def example(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    student, teacher = (2 * torch.randn(B, T, V, generator=generator).to(dtype) for _ in range(2))
    targets = torch.randint(0, V, (B, T), generator=generator)
    targets[0, 2:] = IGNORED
    targets[2] = IGNORED
    return student, teacher, targets


@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_of_a_whole_batch_is_right(name: str) -> None:
    student, teacher, targets = example()
    assert check_gradient(lambda s: LOSSES[name](s, teacher, targets), [student])


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_masked_is_not_even_read(name: str) -> None:
    student, teacher, targets = example()
    expected = LOSSES[name](student, teacher, targets)
    masked = targets == IGNORED
    student[masked] = teacher[masked] = math.nan
    student.requires_grad_()
    found = LOSSES[name](student, teacher, targets)
    found.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert torch.equal(found, expected)
    assert student.grad is not None and student.grad[masked].eq(0).all()
    assert student.grad[~masked].ne(0).any(-1).all()


@pytest.mark.parametrize("name", LOSSES)
def test_the_logits_are_left_as_they_were(name: str) -> None:
    student, teacher, _ = example(torch.float32)
    before = student.clone(), teacher.clone()
    LOSSES[name](student.requires_grad_(), teacher, torch.zeros(B, T, dtype=torch.long))
    assert torch.equal(student, before[0]) and torch.equal(teacher, before[1])


@pytest.mark.parametrize("name", LOSSES)
def test_a_few_rows_at_a_time_are_the_same_as_all(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    student, teacher, targets = example()
    student.requires_grad_()
    values, gradients = [], []
    for at_once in (1, 3 * V, 1 << 30):
        monkeypatch.setattr(losses, "AT_ONCE", at_once)
        value = LOSSES[name](student, teacher, targets)
        gradients += torch.autograd.grad(value, student)
        values.append(value.item())
    assert max(values) - min(values) <= CLOSE * abs(values[0])
    assert torch.equal(gradients[0], gradients[1]) and torch.equal(gradients[1], gradients[2])


@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_with_no_supervised_token_raises_and_never_gives_nan_or_0(name: str) -> None:
    student, teacher, targets = example()
    with pytest.raises(NoSupervisedToken, match="found none in a batch of"):
        LOSSES[name](student, teacher, torch.full_like(targets, IGNORED))


def test_micro_batches_add_up_to_the_whole_batch_whatever_their_sizes() -> None:
    student, teacher, targets = example()
    tokens = int((targets != IGNORED).sum())
    whole = forward_kl(student, teacher, targets, temperature=2.0).item()
    parts = [
        forward_kl(
            student[i : i + 1],
            teacher[i : i + 1],
            targets[i : i + 1],
            temperature=2.0,
            tokens=tokens,
        )
        for i in range(B)
    ]
    assert abs(sum(part.item() for part in parts) - whole) <= CLOSE * whole


def test_the_total_has_the_gradient_of_the_weighted_sum() -> None:
    student, teacher, targets = example()
    student.requires_grad_()
    terms = [(ForwardKL(2.0), 0.7), (CrossEntropy(0.1), 0.3)]
    total, raw = logit_losses(student, teacher, targets, terms)
    apart = 0.7 * forward_kl(student, teacher, targets, temperature=2.0)
    apart = apart + 0.3 * cross_entropy(student, targets, smoothing=0.1)
    assert abs(total.item() - apart.item()) <= CLOSE * apart.item()
    assert abs(total.item() - (0.7 * raw[0] + 0.3 * raw[1]).item()) <= CLOSE * apart.item()
    (one,), (other,) = (torch.autograd.grad(value, student) for value in (total, apart))
    assert torch.allclose(one, other, rtol=0, atol=CLOSE)
    assert not raw.requires_grad


def test_a_loss_can_be_scaled_and_differentiated_twice_over() -> None:
    student, teacher, targets = example()
    student.requires_grad_()
    value = forward_kl(student, teacher, targets)
    (once,) = torch.autograd.grad(value, student, retain_graph=True)
    (thrice,) = torch.autograd.grad(3 * value, student)
    assert torch.allclose(thrice, 3 * once, rtol=2**-51, atol=0)


def test_a_teacher_that_could_be_trained_gets_no_gradient() -> None:
    student, teacher, targets = example()
    teacher.requires_grad_()
    student.requires_grad_()
    forward_kl(student, teacher, targets).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert teacher.grad is None and student.grad is not None


def test_rows_may_come_from_elsewhere_and_columns_in_another_order() -> None:
    student, teacher, targets = example()
    order = torch.randperm(V, generator=torch.Generator().manual_seed(1))
    elsewhere = torch.randperm(B * T, generator=torch.Generator().manual_seed(2))
    moved = torch.empty_like(teacher).flatten(0, 1)
    moved[elsewhere] = teacher.flatten(0, 1)
    shuffled = torch.empty_like(moved)
    shuffled[:, order] = moved
    which = Rows.supervised(targets).student_n
    rows = Rows(which, elsewhere[which], order)
    found, _ = logit_losses(student, shuffled, targets, [(ForwardKL(), 1.0)], rows=rows)
    assert torch.equal(found, forward_kl(student, teacher, targets))


def test_half_precision_is_computed_in_float32() -> None:
    student, teacher, targets = example(torch.bfloat16)
    found = forward_kl(student, teacher, targets, temperature=2.0)
    exact = forward_kl(student.double(), teacher.double(), targets, temperature=2.0)
    assert found.dtype == torch.float32
    assert abs(found.item() - exact.item()) <= 64 * 2**-24 * 4 * 8


def test_cross_entropy_is_the_trainers() -> None:
    student, _, targets = example()
    expected = mean_loss(student, targets).item()
    assert abs(cross_entropy(student, targets).item() - expected) <= CLOSE * expected
    smoothed = F.cross_entropy(
        student.flatten(0, 1), targets.flatten(), label_smoothing=0.1, ignore_index=IGNORED
    ).item()
    assert abs(cross_entropy(student, targets, smoothing=0.1).item() - smoothed) <= CLOSE * smoothed


def test_torchs_divergence_is_ours_once_its_arguments_mean_and_temperature_are_put_right() -> None:
    student, teacher, _ = example()
    targets = torch.zeros(B, T, dtype=torch.long)
    ours = forward_kl(student, teacher, targets, temperature=2.0).item()
    q, p = (F.log_softmax(x.flatten(0, 1) / 2.0, -1) for x in (student, teacher))
    theirs = F.kl_div(q, p, log_target=True, reduction="batchmean").item()
    assert abs(ours - 4 * theirs) <= CLOSE * ours
    # Its default means over elements: V times too small.
    with pytest.warns(UserWarning, match="batchmean"):
        default = F.kl_div(q, p, log_target=True, reduction="mean").item()
    assert abs(ours - 4 * V * default) <= CLOSE * ours
    # The other way round it is another divergence.
    swapped = 4 * F.kl_div(p, q, log_target=True, reduction="batchmean").item()
    reverse = reverse_kl(student, teacher, targets, temperature=2.0).item()
    assert abs(swapped - reverse) <= CLOSE * reverse
    assert abs(swapped - ours) > 1e6 * CLOSE * ours


def test_torchs_divergence_is_no_number_where_ours_is_right() -> None:
    student, teacher, targets = example()
    student[..., 4] = teacher[..., 4] = -math.inf
    q, p = (F.log_softmax(x.flatten(0, 1), -1) for x in (student, teacher))
    assert math.isnan(F.kl_div(q, p, log_target=True, reduction="batchmean").item())
    assert math.isfinite(forward_kl(student, teacher, targets).item())


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="trl is not installed")
@pytest.mark.filterwarnings("default")
def test_trls_divergence_is_ours_without_the_square_of_the_temperature() -> None:
    from trl.experimental.gkd.gkd_trainer import GKDTrainer

    theirs = GKDTrainer.generalized_jsd_loss
    student, teacher, targets = example()
    for beta, T in itertools.product((0.0, 0.1, 0.5, 1.0), (1.0, 3.0)):
        ours = jensen_shannon(student, teacher, targets, beta=beta, temperature=T).item()
        found = theirs(student, teacher, targets, beta=beta, temperature=T).item()
        assert abs(ours - T**2 * found) <= CLOSE * ours
    impossible = (x.clone() for x in (student, teacher))
    none = torch.full_like(targets, IGNORED)
    student, teacher = (x.index_fill(-1, torch.tensor([4]), -math.inf) for x in impossible)
    for beta in (0.0, 0.1, 0.5, 1.0):
        # No token at all, and a token that is impossible for both.
        assert not theirs(student, teacher, none, beta=beta).item() > 0
        assert math.isnan(theirs(student, teacher, targets, beta=beta).item())
        assert math.isfinite(jensen_shannon(student, teacher, targets, beta=beta).item())
