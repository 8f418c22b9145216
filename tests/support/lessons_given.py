"""Recorded steps in which a student is taught, for the tests of lessons."""

from __future__ import annotations

from collections.abc import Callable

import torch
from steps import SmallModel, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.tape.window import Window

Compare = Callable[[Tensor, Tensor], Tensor]
Mix = Callable[[Tensor, Tensor], Tensor]
HEAT = 2.0


def master() -> SmallModel:
    """A teacher that is always the same."""
    torch.manual_seed(5)
    return SmallModel()


def divergence(student: Tensor, teacher: Tensor, heat: float = HEAT) -> Tensor:
    """T² times the divergence per position."""
    said, told = F.log_softmax(student / heat, -1), F.softmax(teacher / heat, -1)
    return F.kl_div(said.flatten(0, 1), told.flatten(0, 1), reduction="batchmean") * heat**2


def half(lesson: Tensor, labels: Tensor) -> Tensor:
    """As much of one as of the other."""
    return 0.5 * lesson + 0.5 * labels


def alone(lesson: Tensor, labels: Tensor) -> Tensor:
    """Without labels."""
    return lesson


def taught(
    compare: Compare = divergence,
    mix: Mix = half,
    *,
    requires_grad: bool = False,
    teacher: Callable[[Tensor], Tensor] | None = None,
) -> Window:
    """A recorded step of a student with a teacher."""
    known = teacher or master()

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        with torch.set_grad_enabled(requires_grad):
            told = known(tokens[:, :-1])
        said = model(tokens[:, :-1])
        labels = F.cross_entropy(said.flatten(0, 1), tokens[:, 1:].flatten())
        return mix(compare(said, told), labels)

    return recorded_step(loss)


def by_hand(student: Tensor, teacher: Tensor) -> Tensor:
    """Cross-entropy with the teacher, with a softmax written out."""
    exponentials = (student - student.amax(-1, keepdim=True)).exp()
    said = exponentials / exponentials.sum(-1, keepdim=True)
    return -(teacher.softmax(-1) * said.log()).sum(-1).mean()


def in_place(student: Tensor, teacher: Tensor) -> Tensor:
    """Softened in place, and without the square."""
    softened = student.clone()
    softened /= 3
    said, told = softened.log_softmax(-1), (teacher / 3).log_softmax(-1)
    summed = F.kl_div(said, told, log_target=True, reduction="sum")
    return summed / (student.shape[0] * student.shape[1])


def half_of_each(student: Tensor, teacher: Tensor) -> Tensor:
    """Jensen and Shannon's."""
    said, told = student.softmax(-1), teacher.softmax(-1)
    middle = ((said + told) / 2).log()
    parts = [F.kl_div(middle, p, reduction="none").sum(-1).mean() for p in (said, told)]
    return 0.5 * parts[0] + 0.5 * parts[1]


def reverse(student: Tensor, teacher: Tensor) -> Tensor:
    """The other direction."""
    said, told = student.log_softmax(-1), teacher.log_softmax(-1)
    return F.kl_div(told, said, log_target=True, reduction="none").sum(-1).mean()


def of_few_rows(student: Tensor, teacher: Tensor) -> Tensor:
    """Only some positions are compared."""
    kept = torch.arange(student.shape[1]) % 2 == 0
    return divergence(student[:, kept], teacher[:, kept])


def squares(student: Tensor, teacher: Tensor) -> Tensor:
    """No softmax at all."""
    return F.mse_loss(student, teacher)


def of_few_classes(student: Tensor, teacher: Tensor) -> Tensor:
    """Only what the teacher holds most likely."""
    told, chosen = teacher.topk(4, -1)
    return -(told.softmax(-1) * student.log_softmax(-1).gather(-1, chosen)).sum(-1).mean()
