"""Terms of rows against references written in plain loops of float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lossleuth import check_gradient
from lossleuth.reference.distil import row_terms
from lossleuth.reference.distil.row_terms import (
    CrossEntropy,
    ForwardKL,
    JensenShannon,
    ReverseKL,
    SortedDifference,
    Term,
    TopK,
)
from lossleuth.types.errors import BadInput

ROWS, V = 5, 11
# A sum of V products of numbers of size 1, each off by half a last digit at most a few times over.
DIGITS = 64 * V


def softmax(logits: Sequence[float], T: float) -> list[float]:
    top = max(logits)
    parts = [math.exp((x - top) / T) for x in logits]
    return [part / math.fsum(parts) for part in parts]


def kl(p: Sequence[float], q: Sequence[float]) -> float:
    return math.fsum(
        a * (math.log(a) - (math.log(b) if b else -math.inf))
        for a, b in zip(p, q, strict=True)
        if a
    )


def forward_reference(s: list[float], t: list[float], y: int, T: float) -> float:
    return T * T * kl(softmax(t, T), softmax(s, T))


def reverse_reference(s: list[float], t: list[float], y: int, T: float) -> float:
    return T * T * kl(softmax(s, T), softmax(t, T))


def shannon_reference(beta: float) -> Callable[[list[float], list[float], int, float], float]:
    def value(s: list[float], t: list[float], y: int, T: float) -> float:
        q, p = softmax(s, T), softmax(t, T)
        m = [(1 - beta) * b + beta * a for a, b in zip(p, q, strict=True)]
        return T * T * (beta * kl(p, m) + (1 - beta) * kl(q, m))

    return value


def top_reference(k: int) -> Callable[[list[float], list[float], int, float], float]:
    def value(s: list[float], t: list[float], y: int, T: float) -> float:
        q, p = softmax(s, T), softmax(t, T)
        order = sorted(range(len(p)), key=lambda i: -p[i])
        top, tail = order[:k], order[k:]
        return (T * T) * kl(
            [*(p[i] for i in top), math.fsum(p[i] for i in tail)],
            [*(q[i] for i in top), math.fsum(q[i] for i in tail)],
        )

    return value


def entropy_reference(share: float) -> Callable[[list[float], list[float], int, float], float]:
    def value(s: list[float], t: list[float], y: int, T: float) -> float:
        q = softmax(s, 1.0)
        can = [i for i, x in enumerate(s) if x > -math.inf]
        return -(1 - share) * math.log(q[y]) - math.fsum(
            share / len(can) * math.log(q[i]) for i in can
        )

    return value


def sorted_reference(s: list[float], t: list[float], y: int, T: float) -> float:
    q, p = sorted(softmax(s, T), reverse=True), sorted(softmax(t, T), reverse=True)
    longest = max(len(p), len(q))
    q, p = q + [0.0] * (longest - len(q)), p + [0.0] * (longest - len(p))
    return math.fsum(abs(a - b) for a, b in zip(p, q, strict=True))


CASES = {
    "forward": (lambda T: ForwardKL(T), forward_reference),
    "reverse": (lambda T: ReverseKL(T), reverse_reference),
    "jensen_shannon": (lambda T: JensenShannon(0.3, T), shannon_reference(0.3)),
    "beta_0": (lambda T: JensenShannon(0.0, T), forward_reference),
    "beta_1": (lambda T: JensenShannon(1.0, T), reverse_reference),
    "top": (lambda T: TopK(3, T), top_reference(3)),
    "all": (lambda T: TopK(V, T), forward_reference),
    "entropy": (lambda T: CrossEntropy(), entropy_reference(0.0)),
    "smoothed": (lambda T: CrossEntropy(0.1), entropy_reference(0.1)),
    "sorted": (lambda T: SortedDifference(T), sorted_reference),
}


def logits(seed: int, V: int = V) -> Tensor:
    return 3 * torch.randn(ROWS, V, generator=torch.Generator().manual_seed(seed)).double()


TARGETS = torch.tensor([0, 3, 10, 4, 4])


class Differentiable(torch.autograd.Function):
    """A term with the gradient that it claims."""

    @staticmethod
    def forward(ctx, student, teacher, term):  # type: ignore[no-untyped-def,override]  # torch's own
        losses, gradient = term.rows(student.detach().clone(), teacher.clone(), TARGETS)
        ctx.save_for_backward(gradient)
        return losses.sum()

    @staticmethod
    def backward(ctx, outer):  # type: ignore[no-untyped-def,override]  # torch's own
        return ctx.saved_tensors[0] * outer, None, None


@pytest.mark.parametrize("T", [1.0, 0.5, 4.0])
@pytest.mark.parametrize("name", CASES)
def test_a_term_is_its_reference(name: str, T: float) -> None:
    make, reference = CASES[name]
    student, teacher = logits(0), logits(1)
    found, _ = make(T).rows(student.clone(), teacher.clone(), TARGETS)
    expected = [
        reference(s, t, y, T)
        for s, t, y in zip(student.tolist(), teacher.tolist(), TARGETS.tolist(), strict=True)
    ]
    size = max(1.0, T * T) * student.abs().max().item()
    assert np.allclose(found.numpy(), expected, rtol=0, atol=DIGITS * 2**-53 * size)


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", CASES)
def test_a_terms_gradient_is_right(name: str, T: float) -> None:
    term, teacher = CASES[name][0](T), logits(1)
    checked = check_gradient(lambda s: Differentiable.apply(s, teacher, term), [logits(0)])
    assert checked, checked


@pytest.mark.parametrize("factor", [1.01, 1 / 3.0])
def test_a_gradient_with_a_wrong_factor_is_seen(factor: float) -> None:
    class Wrong(ForwardKL):
        def rows(self, *arguments: Tensor) -> tuple[Tensor, Tensor]:
            losses, gradient = super().rows(*arguments)
            return losses, gradient * factor

    teacher = logits(1)
    checked = check_gradient(lambda s: Differentiable.apply(s, teacher, Wrong(3.0)), [logits(0)])
    assert checked.outcome.value == "fail"


@pytest.mark.parametrize("name", CASES)
def test_what_is_impossible_for_both_costs_nothing(name: str) -> None:
    make, _ = CASES[name]
    student, teacher = logits(0), logits(1)
    there = [i for i in range(V) if i not in (1, 7)]
    student[:, [1, 7]] = teacher[:, [1, 7]] = -math.inf
    targets = torch.tensor([0, 3, 10, 4, 4])
    losses, gradient = make(2.0).rows(student.clone(), teacher.clone(), targets)
    kept = torch.tensor([there.index(y) for y in targets.tolist()])
    alone, of_alone = make(2.0).rows(student[:, there], teacher[:, there], kept)
    assert torch.allclose(losses, alone, rtol=0, atol=DIGITS * 2**-53 * 40)
    assert gradient[:, [1, 7]].eq(0).all()
    assert torch.allclose(gradient[:, there], of_alone, rtol=0, atol=DIGITS * 2**-53 * 8)


@pytest.mark.parametrize(
    ("term", "hidden_from"),
    [(ForwardKL(), "student"), (TopK(V), "student"), (ReverseKL(), "teacher")],
)
def test_a_divergence_that_is_infinite_is_said_to_be(term: Term, hidden_from: str) -> None:
    rows = {"student": logits(0), "teacher": logits(1)}
    rows[hidden_from][:, 5] = -math.inf
    assert term.rows(rows["student"], rows["teacher"], TARGETS)[0].eq(math.inf).all()


def test_the_jensen_shannon_divergence_is_finite_whatever_is_impossible() -> None:
    student, teacher = logits(0), logits(1)
    student[:, 5] = teacher[:, 6] = -math.inf
    losses, gradient = JensenShannon(0.5).rows(student, teacher, TARGETS)
    assert losses.lt(math.log(2)).all() and losses.gt(0).all()
    assert gradient.isfinite().all()


def test_sorted_probabilities_need_no_common_vocabulary() -> None:
    student, teacher = logits(0), logits(1, V=7)
    for s, t in ((student, teacher), (teacher, student)):
        found, gradient = SortedDifference(2.0).rows(s, t, TARGETS)
        expected = [
            sorted_reference(a, b, 0, 2.0) for a, b in zip(s.tolist(), t.tolist(), strict=True)
        ]
        assert np.allclose(found.numpy(), expected, rtol=0, atol=DIGITS * 2**-53)
        assert gradient.shape == s.shape


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: ForwardKL(0.0), "a temperature above 0, found 0.0"),
        (lambda: ReverseKL(-1.0), "a temperature above 0, found -1.0"),
        (lambda: JensenShannon(0.5, math.nan), "a temperature above 0, found nan"),
        (lambda: JensenShannon(1.5), "a beta from 0 to 1, found 1.5"),
        (lambda: TopK(0), "1 or more tokens of the teacher, found 0"),
        (lambda: CrossEntropy(1.0), "a share below 1 to smooth, found 1.0"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Term], expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        make()


KERNEL_TERMS = {
    "forward": (lambda T, kernel: ForwardKL(T, kernel), forward_reference),
    "entropy": (lambda T, kernel: CrossEntropy(0.0, kernel), entropy_reference(0.0)),
}


@pytest.mark.parametrize("kernel", ["auto", "torch"])
@pytest.mark.parametrize("T", [1.0, 0.5, 4.0])
@pytest.mark.parametrize("name", KERNEL_TERMS)
def test_a_term_of_the_kernels_is_its_reference_too(name: str, T: float, kernel: str) -> None:
    make, reference = KERNEL_TERMS[name]
    student, teacher = logits(0).float(), logits(1).float()
    found, gradient = make(T, kernel).rows(student.clone(), teacher.clone(), TARGETS)
    expected = [
        reference(s, t, y, T)
        for s, t, y in zip(student.tolist(), teacher.tolist(), TARGETS.tolist(), strict=True)
    ]
    size = max(1.0, T * T) * student.abs().max().item() / min(1.0, T)
    assert np.allclose(found.numpy(), expected, rtol=0, atol=DIGITS * 2**-24 * size)
    _, true = make(T, "torch").rows(student.double(), teacher.double(), TARGETS)
    assert np.allclose(gradient.numpy(), true.numpy(), rtol=0, atol=DIGITS * 2**-24 * max(1, T))


def test_the_setting_says_who_computes_a_term(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def noted(name: str) -> None:
        real = getattr(row_terms, name)

        def calls(*arguments: Any) -> Any:
            called.append(name)
            return real(*arguments)

        monkeypatch.setattr(row_terms, name, calls)

    noted("divergence_rows")
    noted("cross_entropy_rows")
    narrow = logits(0).float(), logits(1).float(), TARGETS
    for term in (ForwardKL(1.0, "torch"), CrossEntropy(0.0, "torch"), CrossEntropy(0.1, "auto")):
        term.rows(*narrow)
    assert called == []
    ForwardKL().rows(*narrow)
    CrossEntropy().rows(*narrow)
    assert called == ["divergence_rows", "cross_entropy_rows"]


@pytest.mark.parametrize("kernel", ["auto", "torch"])
def test_what_cannot_be_is_told_alike_whoever_computes_it(kernel: str) -> None:
    student, teacher = logits(0).float(), logits(1).float()
    student[0, 3] = teacher[0, 3] = -math.inf
    teacher[1, 4] = -math.inf
    student[2, 5] = -math.inf
    losses, gradient = ForwardKL(2.0, kernel).rows(student, teacher, TARGETS)
    assert losses.isfinite().tolist() == [True, True, False, True, True]
    assert losses[2] == math.inf and gradient[0, 3] == 0
