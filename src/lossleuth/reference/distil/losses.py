"""Losses of logits, reduced per supervised token, a few rows at a time.

Vocabularies are large: at (1 024, 32 000) one more copy of the logits is 131 MB, and the usual way
to write a divergence makes six. Here a few rows at a time go through it, and what is left of all
of them is the loss and one gradient.

Where the usual functions differ from these:

- `torch.nn.functional.kl_div` has its arguments the other way round, by default means over every
  *element*, knows neither T² nor masks, and is NaN where a token is impossible for both.
- TRL's `generalized_jsd_loss` has no T², is NaN where a token is impossible for both, and gives 0
  for a batch without a supervised token. Its mean over unmasked tokens is the same as here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lossleuth.reference.distil.row_terms import (
    CrossEntropy,
    ForwardKL,
    JensenShannon,
    ReverseKL,
    SortedDifference,
    Term,
    TopK,
)
from lossleuth.reference.train.data import IGNORED
from lossleuth.reference.train.loss import NoSupervisedToken

# Numbers that go through a term at once: their temporaries stay in the processor's cache, and are
# enough to be worth a call.
AT_ONCE = 1 << 19


@dataclass(frozen=True)
class Rows:
    """Which rows are compared: the n-th of the student with the n-th of the teacher.

    `columns` are the teacher's columns in the order of the student's vocabulary.
    """

    student_n: Tensor
    teacher_n: Tensor
    columns: Tensor | None = None

    @classmethod
    def supervised(cls, targets_BT: Tensor) -> Rows:
        """Every supervised position with the same one of the teacher.

        >>> Rows.supervised(torch.tensor([[5, IGNORED], [7, 2]])).student_n.tolist()
        [0, 2, 3]
        """
        which_n = (targets_BT.flatten() != IGNORED).nonzero().squeeze(1)
        return cls(which_n, which_n)


def logit_losses(
    student: Tensor,
    teacher: Tensor | None,
    targets: Tensor,
    weighted: Sequence[tuple[Term, float]],
    *,
    tokens: int | None = None,
    rows: Rows | None = None,
) -> tuple[Tensor, Tensor]:
    """Weighted sum of terms, and each term by itself without gradient; means over `tokens`.

    Tokens are by default the supervised ones; with accumulation, those of the whole step. The
    teacher gets no gradient: there is none to get.

    >>> student, teacher = torch.zeros(1, 2, 4), torch.eye(4)[None, :2] * 3
    >>> terms = [(ForwardKL(2.0), 0.5), (CrossEntropy(), 0.5)]
    >>> total, raw = logit_losses(student, teacher, torch.tensor([[0, IGNORED]]), terms)
    >>> round(total.item(), 4), [round(value, 4) for value in raw.tolist()]
    (1.2379, [1.0895, 1.3863])
    """
    rows = rows or Rows.supervised(targets)
    count = len(rows.student_n) if tokens is None else tokens
    if not count:
        raise NoSupervisedToken(
            f"expected at least one supervised token, found none in a batch of "
            f"{tuple(targets.shape)}: every target is {IGNORED}"
        )
    flat = None if teacher is None else teacher.detach().flatten(0, -2)
    terms = [term for term, _ in weighted]
    weights = [weight for _, weight in weighted]
    total, raw = _RowLosses.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
        student.flatten(0, -2), flat, targets.flatten(), rows, terms, weights, count
    )
    return total, raw


class _RowLosses(torch.autograd.Function):
    """The gradient is made while the rows are at hand, with weights and mean already in it."""

    @staticmethod
    def forward(
        ctx: Any,
        student_NV: Tensor,
        teacher_MW: Tensor | None,
        targets_N: Tensor,
        rows: Rows,
        terms: list[Term],
        weights: list[float],
        count: int,
    ) -> tuple[Tensor, Tensor]:
        wide = torch.float64 if student_NV.dtype == torch.float64 else torch.float32
        needed = ctx.needs_input_grad[0]
        gradient_NV = torch.zeros_like(student_NV) if needed else None
        sums = torch.zeros(len(terms), dtype=torch.float64, device=student_NV.device)
        at_once = max(1, AT_ONCE // student_NV.size(-1))
        for student_n, teacher_n in zip(
            torch.split(rows.student_n, at_once), torch.split(rows.teacher_n, at_once), strict=True
        ):
            where = _block(student_n)
            student_nV = student_NV[where].to(wide)
            teacher_nV = None if teacher_MW is None else teacher_MW[_block(teacher_n)].to(wide)
            if teacher_nV is not None and rows.columns is not None:
                teacher_nV = teacher_nV[:, rows.columns]
            together_nV = None
            for i, (term, weight) in enumerate(zip(terms, weights, strict=True)):
                loss_n, part_nV = term.rows(student_nV, teacher_nV, targets_N[student_n])  # type: ignore[arg-type]  # only terms without a teacher get none
                sums[i] += loss_n.double().sum()
                if needed:
                    part_nV.mul_(weight / count)
                    together_nV = part_nV if together_nV is None else together_nV.add_(part_nV)
            if gradient_NV is not None and together_nV is not None:
                gradient_NV[where] = together_nV.to(gradient_NV.dtype)
        raw = sums / count
        total = (raw * raw.new_tensor(weights)).sum().to(wide)
        if gradient_NV is not None:
            ctx.save_for_backward(gradient_NV)
        ctx.mark_non_differentiable(raw)
        return total, raw

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        (gradient_NV,) = ctx.saved_tensors
        scaled = gradient_NV if outer[0].item() == 1 else gradient_NV * outer[0]
        return scaled, None, None, None, None, None, None


def _block(which_n: Tensor) -> Tensor | slice:
    """Rows that follow each other as a slice, which is looked at without a copy."""
    if not len(which_n) or not bool((which_n.diff() == 1).all()):
        return which_n
    return slice(int(which_n[0]), int(which_n[-1]) + 1)


def forward_kl(
    student: Tensor,
    teacher: Tensor,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    tokens: int | None = None,
) -> Tensor:
    """T² · KL(teacher ‖ student), mean over supervised tokens.

    >>> logits, targets = torch.randn(2, 3, 5), torch.zeros(2, 3, dtype=torch.long)
    >>> forward_kl(logits, logits, targets, temperature=4.0).item()
    0.0
    """
    return _one(ForwardKL(temperature), student, teacher, targets, tokens)


def reverse_kl(
    student: Tensor,
    teacher: Tensor,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    tokens: int | None = None,
) -> Tensor:
    """T² · KL(student ‖ teacher), mean over supervised tokens.

    >>> logits, targets = torch.randn(2, 3, 5), torch.zeros(2, 3, dtype=torch.long)
    >>> reverse_kl(logits, logits, targets).item()
    0.0
    """
    return _one(ReverseKL(temperature), student, teacher, targets, tokens)


def jensen_shannon(
    student: Tensor,
    teacher: Tensor,
    targets: Tensor,
    *,
    beta: float = 0.5,
    temperature: float = 1.0,
    tokens: int | None = None,
) -> Tensor:
    """T² · generalised Jensen–Shannon divergence, mean over supervised tokens.

    It is never above ln 2 · T², however far apart the two are.

    >>> apart = torch.tensor([[50.0, 0.0]]), torch.tensor([[0.0, 50.0]])
    >>> round(jensen_shannon(*apart, torch.zeros(1, dtype=torch.long)).item(), 4)
    0.6931
    """
    return _one(JensenShannon(beta, temperature), student, teacher, targets, tokens)


def top_k_kl(
    student: Tensor,
    teacher: Tensor,
    targets: Tensor,
    *,
    k: int,
    temperature: float = 1.0,
    tokens: int | None = None,
) -> Tensor:
    """T² · KL to the teacher's k likeliest tokens and the mass of all others.

    >>> logits, targets = torch.randn(2, 3, 5), torch.zeros(2, 3, dtype=torch.long)
    >>> abs(top_k_kl(logits, logits, targets, k=2).item()) < 1e-6
    True
    """
    return _one(TopK(k, temperature), student, teacher, targets, tokens)


def cross_entropy(
    student: Tensor, targets: Tensor, *, smoothing: float = 0.0, tokens: int | None = None
) -> Tensor:
    """Cross-entropy with the targets, mean over supervised tokens.

    >>> round(cross_entropy(torch.zeros(1, 1, 4), torch.tensor([[2]]), smoothing=0.1).item(), 4)
    1.3863
    """
    total, _ = logit_losses(student, None, targets, [(CrossEntropy(smoothing), 1.0)], tokens=tokens)
    return total


def sorted_difference(
    student: Tensor,
    teacher: Tensor,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    tokens: int | None = None,
) -> Tensor:
    """Difference of sorted probabilities, for vocabularies without common names.

    >>> student, teacher = torch.zeros(1, 1, 2), torch.zeros(1, 1, 4)
    >>> sorted_difference(student, teacher, torch.zeros(1, 1, dtype=torch.long)).item()
    1.0
    """
    return _one(SortedDifference(temperature), student, teacher, targets, tokens)


def _one(
    term: Term, student: Tensor, teacher: Tensor, targets: Tensor, tokens: int | None
) -> Tensor:
    total, _ = logit_losses(student, teacher, targets, [(term, 1.0)], tokens=tokens)
    return total
