"""The divergence of a student from a teacher, against the slow reference and torch."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from needs import need_native
from slow_losses import check_answer, slow_divergence
from torch import Tensor
from torch.nn import functional as F

from lossleuth.kernels import kl_divergence
from lossleuth.kernels.supervision import NothingSupervised


def pair(rows: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    student, teacher = (torch.randn(rows, width, generator=generator) * 3 for _ in range(2))
    return student, teacher


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.integers(1, 6),
    width=st.one_of(st.integers(1, 70), st.sampled_from([2047, 2048, 2049, 5000])),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    temperature=st.sampled_from([1.0, 0.5, 2.0, 3.0]),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    exact=st.booleans(),
    masked=st.booleans(),
    transposed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_anything_gives_the_reference(
    kernels: str,
    rows: int,
    width: int,
    dtype: torch.dtype,
    temperature: float,
    reduction: str,
    exact: bool,
    masked: bool,
    transposed: bool,
    seed: int,
) -> None:
    student, teacher = (logits.to(dtype) for logits in pair(rows, width, seed))
    if transposed:
        student, teacher = student.t().contiguous().t(), teacher.t().contiguous().t()
    mask = torch.arange(rows) % 3 != 1 if masked else None
    leaf = student.detach().requires_grad_()
    options = {"mask": mask, "reduction": reduction, "exact": exact}
    loss = kl_divergence(leaf, teacher, temperature, **options)  # type: ignore[arg-type]  # many
    loss.backward(torch.ones_like(loss))
    assert leaf.grad is not None
    expected = slow_divergence(student, teacher, temperature, **options)  # type: ignore[arg-type]  # many
    check_answer(loss.detach(), leaf.grad.double(), expected)
    assert torch.equal(kl_divergence(student, teacher, temperature, **options), loss)  # type: ignore[arg-type]  # many


@pytest.mark.parametrize("temperature", [1.0, 2.0, 4.0])
def test_it_is_torch_times_the_temperature_squared(kernels: str, temperature: float) -> None:
    student, teacher = pair(7, 300)
    theirs = F.kl_div(
        (student.double() / temperature).log_softmax(-1),
        (teacher.double() / temperature).softmax(-1),
        reduction="batchmean",
    )
    found = kl_divergence(student, teacher, temperature, exact=True)
    torch.testing.assert_close(found, theirs * temperature**2, rtol=1e-13, atol=0)


@pytest.mark.parametrize("exact", [False, True])
def test_a_student_that_is_the_teacher_is_at_zero(kernels: str, exact: bool) -> None:
    student, _ = pair(4, 200)
    leaf = student.requires_grad_()
    loss = kl_divergence(leaf, student.detach().clone(), 2.0, exact=exact)
    loss.backward()
    assert loss.item() == 0 and leaf.grad is not None
    assert leaf.grad.abs().max() == 0


@pytest.mark.parametrize("exact", [False, True])
def test_what_the_teacher_rules_out_adds_nothing(kernels: str, exact: bool) -> None:
    student, teacher = pair(4, 60)
    teacher[:, :20] = -math.inf
    student[:2, :20] = -math.inf
    leaf = student.requires_grad_()
    loss = kl_divergence(leaf, teacher, 2.0, exact=exact)
    loss.backward()
    assert leaf.grad is not None
    expected = slow_divergence(student, teacher, 2.0, exact=exact)
    check_answer(loss.detach(), leaf.grad.double(), expected)
    assert (leaf.grad[:2, :20] == 0).all() and loss.isfinite()


def test_what_only_the_student_rules_out_is_infinite(kernels: str) -> None:
    student, teacher = pair(2, 60)
    student[0, 3] = -math.inf
    losses = kl_divergence(student, teacher, reduction="none")
    assert losses[0] == math.inf and losses[1].isfinite()
    student[0, 3] = math.nan
    assert kl_divergence(student, teacher, reduction="none").isnan().tolist() == [True, False]


def test_types_may_differ(kernels: str) -> None:
    student, teacher = pair(4, 60)
    found = kl_divergence(student.bfloat16(), teacher)
    expected = slow_divergence(student.bfloat16().float(), teacher)
    check_answer(found, None, expected)


def test_threads_do_not_change_a_bit() -> None:
    need_native()
    student, teacher = pair(900, 1500)
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            leaf = student.clone().requires_grad_()
            loss = kl_divergence(leaf, teacher, 2.0)
            loss.backward()
            found.append((loss.item(), leaf.grad))
        finally:
            torch.set_num_threads(1)
    (one, gradient), (two, same) = found
    assert one == two and gradient is not None and same is not None
    assert torch.equal(gradient, same)


def test_in_place_the_gradient_is_where_the_logits_were(kernels: str) -> None:
    student, teacher = pair(5, 70)
    leaf = student.clone().requires_grad_()
    kl_divergence(leaf, teacher, 2.0).backward()
    root = student.clone().requires_grad_()
    logits = root * 1
    kl_divergence(logits, teacher, 2.0, inplace=True).backward()
    assert leaf.grad is not None and torch.equal(logits, leaf.grad)
    assert root.grad is not None and torch.equal(root.grad, leaf.grad)
    with pytest.raises(ValueError, match="a leaf that requires grad"):
        kl_divergence(leaf, teacher, inplace=True)


def test_a_kept_graph_can_be_used_again_but_not_derived_twice(kernels: str) -> None:
    student, teacher = pair(5, 70)
    leaf = student.requires_grad_()
    loss = kl_divergence(leaf, teacher)
    first, second = (torch.autograd.grad(loss, leaf, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second) and first.data_ptr() != second.data_ptr()
    with pytest.raises(RuntimeError, match="has no derivative of its own"):
        torch.autograd.grad(kl_divergence(leaf, teacher), leaf, create_graph=True)


def test_what_does_not_fit_is_refused() -> None:
    student, teacher = pair(5, 70)
    with pytest.raises(ValueError, match="a teacher that is trained is no target"):
        kl_divergence(student, teacher.requires_grad_())
    with pytest.raises(ValueError, match="expected teacher logits of the student's shape"):
        kl_divergence(student, teacher[:, :-1].detach())
    with pytest.raises(NothingSupervised):
        kl_divergence(student, teacher.detach(), mask=torch.zeros(5, dtype=torch.bool))
    with pytest.raises(ValueError, match="expected a temperature above 0"):
        kl_divergence(student, teacher.detach(), -1.0)
