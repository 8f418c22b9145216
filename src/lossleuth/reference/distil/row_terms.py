"""What one row of logits costs, with its gradient in closed form.

Every term takes some rows of student logits (and of teacher logits), and gives the loss of each
row and its gradient by the student's logits. Nothing here knows batches, masks or means.

    n  rows        V  vocabulary        W  the teacher's vocabulary where it is another

Divergences at a temperature carry its square, as Hinton's do: at logits of moderate size the
gradient then keeps its size whatever the temperature. A logit of -inf is a token that cannot be:
where teacher and student agree on that it costs nothing; where they do not, the divergence is
infinite, and is said to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.kernels.row_losses import Options, cross_entropy_rows, divergence_rows
from lossleuth.kernels.supervision import supervise
from lossleuth.reference.train.data import IGNORED
from lossleuth.reference.train.loss import is_ours
from lossleuth.types.errors import BadInput

Parts = tuple[Tensor, Tensor]
"""Loss of each row, and its gradient by the student's logits."""


class Term(Protocol):
    """A loss of rows."""

    def rows(self, student_nV: Tensor, teacher_nV: Tensor, targets_n: Tensor) -> Parts:
        """Loss and gradient of each row."""


def check_temperature(temperature: float) -> None:
    """Refuse a temperature that is not above 0.

    >>> check_temperature(0.0)
    Traceback (most recent call last):
    ...
    lossleuth.types.errors.BadInput: expected a temperature above 0, found 0.0: change --temperature
    """
    if not temperature > 0:
        raise BadInput("a temperature above 0", f"{temperature}", "change --temperature")


@dataclass(frozen=True)
class ForwardKL:
    """T² · KL(teacher ‖ student): the student must cover all that the teacher thinks possible.

    >>> loss, gradient = ForwardKL(2.0).rows(torch.zeros(1, 2), torch.tensor([[2.0, 0.0]]), None)
    >>> round(loss.item(), 4), [round(g, 4) for g in gradient[0].tolist()]
    (0.4438, [-0.4621, 0.4621])
    """

    temperature: float = 1.0
    kernel: str = "auto"

    def __post_init__(self) -> None:
        check_temperature(self.temperature)

    def rows(self, student_nV: Tensor, teacher_nV: Tensor, targets_n: Tensor) -> Parts:
        """Loss and gradient of each row."""
        T = self.temperature
        if is_ours(self.kernel, student_nV):
            gradient_nV = torch.empty_like(student_nV)
            options = Options(temperature=T, weight=T**2)
            loss_n, _ = divergence_rows(student_nV, teacher_nV, None, options, gradient_nV)
            return loss_n * T**2, gradient_nV
        student, teacher = _below_top(student_nV, T), _below_top(teacher_nV, T)
        # One exponential on each side: logarithms of probabilities are these less their sum's.
        q_nV, p_nV = student.exp(), teacher.exp()
        q_sum_n1, p_sum_n1 = q_nV.sum(-1, keepdim=True), p_nV.sum(-1, keepdim=True)
        p_nV.div_(p_sum_n1)
        loss_n = _expectation(p_nV, teacher.sub_(student))
        loss_n = loss_n + (q_sum_n1.log() - p_sum_n1.log()).squeeze(-1)
        return loss_n * T**2, q_nV.div_(q_sum_n1).sub_(p_nV).mul_(T)


@dataclass(frozen=True)
class ReverseKL:
    """T² · KL(student ‖ teacher): the student must not say what the teacher thinks impossible.

    >>> loss, _ = ReverseKL().rows(torch.zeros(1, 2), torch.tensor([[2.0, 0.0]]), None)
    >>> round(loss.item(), 4)
    0.4338
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)

    def rows(self, student_nV: Tensor, teacher_nV: Tensor, targets_n: Tensor) -> Parts:
        """Loss and gradient of each row."""
        T = self.temperature
        student, teacher = _log_softmax(student_nV, T), _log_softmax(teacher_nV, T)
        q_nV = student.exp()
        ratio_nV = student.sub_(teacher)
        loss_n = _expectation(q_nV, ratio_nV)
        return loss_n * T**2, _through_softmax(q_nV, ratio_nV, loss_n).mul_(T)


@dataclass(frozen=True)
class JensenShannon:
    """T² · generalised Jensen–Shannon divergence, in TRL's convention (its GKD).

    With m = (1 - β)·student + β·teacher it is β·KL(teacher ‖ m) + (1 - β)·KL(student ‖ m). At
    β = 0 and 1 that would be 0 whatever the student says; TRL puts KL(teacher ‖ student) and
    KL(student ‖ teacher) there, and so do we. Divided by β (or by 1 - β) it tends to them.

    >>> loss, _ = JensenShannon(0.5).rows(torch.zeros(1, 2), torch.tensor([[2.0, 0.0]]), None)
    >>> round(loss.item(), 4)
    0.0895
    """

    beta: float = 0.5
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        if not 0 <= self.beta <= 1:
            raise BadInput("a beta from 0 to 1", f"{self.beta}", "change --beta")

    def rows(self, student_nV: Tensor, teacher_nV: Tensor, targets_n: Tensor) -> Parts:
        """Loss and gradient of each row."""
        T, beta = self.temperature, self.beta
        if beta in (0.0, 1.0):
            end = ForwardKL(T) if beta == 0 else ReverseKL(T)
            return end.rows(student_nV, teacher_nV, targets_n)
        student, teacher = _log_softmax(student_nV, T), _log_softmax(teacher_nV, T)
        p_nV, q_nV = teacher.exp(), student.exp()
        mixed = ((1 - beta) * q_nV).add_(p_nV, alpha=beta).log_()
        of_teacher_n = _expectation(p_nV, teacher.sub_(mixed))
        ratio_nV = student.sub_(mixed)
        of_student_n = _expectation(q_nV, ratio_nV)
        loss_n = (beta * of_teacher_n + (1 - beta) * of_student_n) * T**2
        # The mixture's own derivative cancels: what is left is the reverse divergence to it.
        gradient_nV = _through_softmax(q_nV, ratio_nV, of_student_n).mul_((1 - beta) * T)
        return loss_n, gradient_nV


@dataclass(frozen=True)
class TopK:
    """T² · KL to a teacher of which only the k likeliest tokens are known.

    What the teacher leaves to the others is one number. The student's own tail, renormalised to
    that mass, stands for it: the student is told how much is left, and not how to spread it. This
    is the forward divergence over k + 1 outcomes; with k = V it is `ForwardKL`.

    >>> teacher = torch.tensor([[3.0, 1.0, 0.0, 0.0]])
    >>> whole, top = (t.rows(torch.zeros(1, 4), teacher, None)[0] for t in (ForwardKL(), TopK(1)))
    >>> bool(0 < top < whole)
    True
    """

    k: int
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        if self.k < 1:
            raise BadInput("1 or more tokens of the teacher", f"{self.k}", "change --top-k")

    def rows(self, student_nV: Tensor, teacher_nV: Tensor, targets_n: Tensor) -> Parts:
        """Loss and gradient of each row."""
        T = self.temperature
        if self.k >= student_nV.size(-1):
            return ForwardKL(T).rows(student_nV, teacher_nV, targets_n)
        student, teacher = _log_softmax(student_nV, T), _log_softmax(teacher_nV, T)
        top_nk, which_nk = teacher.topk(self.k, dim=-1)
        # Summed, not 1 minus the rest, which would lose the digits of a small tail.
        tail_of_teacher_n = teacher.scatter_(1, which_nk, -torch.inf).logsumexp(-1)
        q_nV = student.exp()
        tail_of_student_n = student.scatter(1, which_nk, -torch.inf).logsumexp(-1)
        p_nk, p_tail_n = top_nk.exp(), tail_of_teacher_n.exp()
        loss_n = _expectation(p_nk, top_nk - student.gather(1, which_nk))
        loss_n += _expectation(p_tail_n[:, None], (tail_of_teacher_n - tail_of_student_n)[:, None])
        share_n = torch.where(p_tail_n > 0, (tail_of_teacher_n - tail_of_student_n).exp(), 0.0)
        target_nV = (q_nV * share_n[:, None]).scatter_(1, which_nk, p_nk)
        return loss_n * T**2, q_nV.sub_(target_nV).mul_(T)


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy with the next token; a share of the target may be spread evenly.

    Smoothing is for what is minimised; nothing that is measured uses it. It spreads over the
    tokens that can be, those whose logit is not -inf.

    >>> round(CrossEntropy().rows(torch.zeros(1, 4), None, torch.tensor([3]))[0].item(), 4)
    1.3863
    """

    smoothing: float = 0.0
    kernel: str = "auto"

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise BadInput(
                "a share below 1 to smooth", f"{self.smoothing}", "change --label-smoothing"
            )

    def rows(self, student_nV: Tensor, teacher_nV: Tensor | None, targets_n: Tensor) -> Parts:
        """Loss and gradient of each row."""
        # The kernels spread what is smoothed over all tokens, also those that cannot be.
        if not self.smoothing and is_ours(self.kernel, student_nV):
            gradient_nV = torch.empty_like(student_nV)
            places = supervise(targets_n, None, tuple(student_nV.shape), IGNORED)
            loss_n, _ = cross_entropy_rows(student_nV, places, Options(), gradient_nV)
            return loss_n, gradient_nV
        student = _log_softmax(student_nV, 1.0)
        hit_n = student.gather(1, targets_n[:, None]).squeeze(1)
        loss_n = -(1 - self.smoothing) * hit_n
        gradient_nV = student.exp()
        if self.smoothing:
            can_be = student > -torch.inf
            share_n = self.smoothing / can_be.sum(-1).to(student.dtype)
            loss_n -= share_n * student.masked_fill_(~can_be, 0.0).sum(-1)
            gradient_nV.sub_(share_n[:, None] * can_be)
        hit = torch.full_like(hit_n, -(1 - self.smoothing))[:, None]
        return loss_n, gradient_nV.scatter_add_(1, targets_n[:, None], hit)


@dataclass(frozen=True)
class SortedDifference:
    """Sum of the differences of sorted probabilities: universal logit distillation.

    For vocabularies that share no names: it compares how sure teacher and student are, likeliest
    with likeliest, and not of what. The shorter list ends in zeros.

    >>> student, teacher = torch.tensor([[0.0, 9.0]]), torch.tensor([[9.0, 0.0, -30.0]])
    >>> SortedDifference().rows(student, teacher, None)[0].item() < 1e-6
    True
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)

    def rows(self, student_nV: Tensor, teacher_nW: Tensor, targets_n: Tensor) -> Parts:
        """Loss and gradient of each row."""
        T = self.temperature
        q_nV = _log_softmax(student_nV, T).exp_()
        p_nW = _log_softmax(teacher_nW, T).exp_().sort(-1, descending=True).values
        ranked_nV, order_nV = q_nV.sort(-1, descending=True)
        V, W = q_nV.size(-1), p_nW.size(-1)
        gap_nM = F.pad(ranked_nV, (0, max(0, W - V))) - F.pad(p_nW, (0, max(0, V - W)))
        slope_nV = torch.empty_like(q_nV).scatter_(1, order_nV, gap_nM[:, :V].sign())
        mean_n = (q_nV * slope_nV).sum(-1)
        return gap_nM.abs().sum(-1), _through_softmax(q_nV, slope_nV, mean_n).div_(T)


def _log_softmax(logits_nV: Tensor, temperature: float) -> Tensor:
    return F.log_softmax(logits_nV if temperature == 1 else logits_nV / temperature, dim=-1)


def _below_top(logits_nV: Tensor, temperature: float) -> Tensor:
    """Logits over the temperature, less the largest of their row: a copy of its own."""
    below_nV = logits_nV - logits_nV.amax(-1, keepdim=True)
    return below_nV if temperature == 1 else below_nV.div_(temperature)


def _expectation(p_nV: Tensor, value_nV: Tensor) -> Tensor:
    """Sum of p · value, where what cannot be counts for nothing, even if its value is no number."""
    sum_n: Tensor = torch.linalg.vecdot(p_nV, value_nV)
    if sum_n.isnan().any():
        sum_n = (p_nV * value_nV).masked_fill_(p_nV == 0, 0.0).sum(-1)
    return sum_n


def _through_softmax(q_nV: Tensor, slope_nV: Tensor, mean_n: Tensor) -> Tensor:
    """From a slope by the probabilities to one by the logits: q · (slope - its mean)."""
    return (slope_nV - mean_n[:, None]).mul_(q_nV).masked_fill_(q_nV == 0, 0.0)
