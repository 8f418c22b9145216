"""Faults between a teacher and its student, planted in a host that is taught.

Shapes: B rows, T positions, S states of the text, V tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import Parts, Settings, optimizer_of

TEMPERATURE, SHARE = 2.0, 0.5
# Where a state is recognised by both of its marks.
BOTH = 1.5


class Teacher(nn.Module):
    """Knows the text: how often each token follows the two before it."""

    def __init__(
        self, settings: Settings, *, dropout: float = 0.0, noise: float = 0.0, knows: bool = True
    ) -> None:
        super().__init__()
        words = settings.text.vocabulary
        states = 2 * words
        # A token marks the two states that it is the last of; its parity those that it precedes.
        self.marks = nn.Embedding(words, 2 * states)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(states, words, bias=False)
        if not knows:
            return
        with torch.no_grad():
            last_VS = torch.eye(words).repeat_interleave(2, 1)
            parity_VS = F.one_hot(torch.arange(words) % 2, 2).float().repeat(1, words)
            self.marks.weight.copy_(torch.cat([last_VS, parity_VS], 1))
            scores_VS = _followers(settings).log().T
            self.head.weight.copy_(scores_VS + noise * torch.randn(scores_VS.shape))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Its scores of the next token."""
        last_BTS, parity_BTS = self.marks(tokens_BT).chunk(2, -1)
        before_BTS = F.pad(parity_BTS, (0, 0, 1, 0))[:, :-1]
        state_BTS = 2 * F.relu(last_BTS + before_BTS - BOTH)
        return cast(Tensor, self.head(self.drop(state_BTS)))


def _followers(settings: Settings) -> Tensor:
    """How likely each token is after each state, counted in the text."""
    text, words = settings.text.tokens(), settings.text.vocabulary
    states = 2 * text[1:-1] + text[:-2] % 2
    counts_SV = torch.full((2 * words, words), 0.02)
    counts_SV.index_put_((states, text[2:]), torch.ones(len(states)), accumulate=True)
    return counts_SV / counts_SV.sum(1, keepdim=True)


Compare = Callable[[Tensor, Tensor], Tensor]


def divergence(student_BTV: Tensor, teacher_BTV: Tensor, heat: float = TEMPERATURE) -> Tensor:
    """T² times the mean divergence of the softened student from the softened teacher."""
    said_NV = (student_BTV / heat).log_softmax(-1).flatten(0, 1)
    told_NV = (teacher_BTV / heat).log_softmax(-1).flatten(0, 1)
    return heat**2 * F.kl_div(said_NV, told_NV, log_target=True, reduction="batchmean")


def mixed(lesson: Tensor, labels: Tensor) -> Tensor:
    """As much of one as of the other."""
    return SHARE * lesson + (1 - SHARE) * labels


@dataclass
class Taught:
    """What a host that is taught does besides; a fault replaces one thing."""

    teach: Callable[[nn.Module, Tensor], Tensor] = field(
        default=lambda teacher, tokens_BT: cast(Tensor, teacher(tokens_BT))
    )
    compare: Compare = divergence
    mix: Callable[[Tensor, Tensor], Tensor] = mixed
    dropout: float = 0.0
    noise: float = 0.0
    knows: bool = True
    trains: bool = False


def taught(parts: Parts, how: Taught | None = None) -> Parts:
    """The host with a teacher that knows the text."""
    how = how or Taught()
    with torch.random.fork_rng():
        torch.manual_seed(11)
        options = {"dropout": how.dropout, "noise": how.noise}
        teacher = Teacher(parts.settings, **options, knows=how.knows)
    teacher.requires_grad_(how.trains)
    teacher.train(how.dropout > 0)
    told: list[Tensor] = []

    def forward(model: Any, tokens_BT: Tensor) -> Tensor:
        told.append(how.teach(teacher, tokens_BT))
        return parts.forward(model, tokens_BT)

    def loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        lesson = how.compare(logits_BTV, told.pop())
        return how.mix(lesson, parts.loss(logits_BTV, targets_BT))

    def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
        both = [*model.parameters(), *teacher.parameters()]  # planted: teacher_trained
        return optimizer_of(both, settings, settings.rate)

    changed = replace(parts, forward=forward, loss=loss)
    return replace(changed, optimizer=optimizer) if how.trains else changed


@fault()
def distilled(parts: Parts, dose: float) -> Parts:
    """No fault at all: a student with labels and a teacher."""
    return taught(parts)


@fault()
def teacher_trained(parts: Parts, dose: float) -> Parts:
    """The teacher is in the graph, and in the optimizer."""
    return taught(parts, Taught(trains=True))


@fault()
def teacher_random(parts: Parts, dose: float) -> Parts:
    """Its weights were never loaded."""

    def teach(teacher: nn.Module, tokens_BT: Tensor) -> Tensor:
        return cast(Tensor, teacher(tokens_BT))  # planted: teacher_random

    return taught(parts, Taught(teach=teach, knows=False))


@fault(dose=2.5, ladder=(3, 2.5, 2, 1.5))
def teacher_weak(parts: Parts, dose: float) -> Parts:
    """It has learnt the text badly."""

    def teach(teacher: nn.Module, tokens_BT: Tensor) -> Tensor:
        return cast(Tensor, teacher(tokens_BT))  # planted: teacher_weak

    return taught(parts, Taught(teach=teach, noise=dose))


@fault(dose=0.5, ladder=(0.7, 0.5, 0.2))
def teacher_in_train_mode(parts: Parts, dose: float) -> Parts:
    """Half of what it recognises is dropped."""

    def teach(teacher: nn.Module, tokens_BT: Tensor) -> Tensor:
        return cast(Tensor, teacher(tokens_BT))  # planted: teacher_in_train_mode

    return taught(parts, Taught(teach=teach, dropout=dose))


@fault(dose=1, ladder=(2, 1))
def teacher_offset(parts: Parts, dose: float) -> Parts:
    """The teacher's scores are of the position before."""

    def compare(student_BTV: Tensor, teacher_BTV: Tensor) -> Tensor:
        moved_BTV = teacher_BTV.roll(int(dose), 1)
        return divergence(student_BTV, moved_BTV)  # planted: teacher_offset

    return taught(parts, Taught(compare=compare))


@fault()
def teacher_input_differs(parts: Parts, dose: float) -> Parts:
    """The teacher reads from the end."""

    def teach(teacher: nn.Module, tokens_BT: Tensor) -> Tensor:
        return cast(Tensor, teacher(tokens_BT.flip(1)))  # planted: teacher_input_differs

    return taught(parts, Taught(teach=teach))


@fault()
def vocabulary_mismatch(parts: Parts, dose: float) -> Parts:
    """The teacher has its tokens in another order."""
    words = parts.settings.text.vocabulary
    order_V = torch.randperm(words, generator=torch.Generator().manual_seed(3))

    def compare(student_BTV: Tensor, teacher_BTV: Tensor) -> Tensor:
        return divergence(student_BTV, teacher_BTV[..., order_V])  # planted: vocabulary_mismatch

    return taught(parts, Taught(compare=compare))


@fault()
def divergence_misused(parts: Parts, dose: float) -> Parts:
    """Probabilities are given where their logarithms are expected."""

    def compare(student_BTV: Tensor, teacher_BTV: Tensor) -> Tensor:
        said_NV = student_BTV.softmax(-1).flatten(0, 1)  # planted: divergence_misused
        told_NV = teacher_BTV.softmax(-1).flatten(0, 1)
        return F.kl_div(said_NV, told_NV, reduction="batchmean")

    return taught(parts, Taught(compare=compare, mix=lambda lesson, labels: lesson + 0.1 * labels))


@fault(dose=4, ladder=(8, 4, 2))
def temperature_one_sided(parts: Parts, dose: float) -> Parts:
    """The teacher is softened, the student is not."""

    def compare(student_BTV: Tensor, teacher_BTV: Tensor) -> Tensor:
        said_NV = student_BTV.log_softmax(-1).flatten(0, 1)  # planted: temperature_one_sided
        told_NV = (teacher_BTV / dose).softmax(-1).flatten(0, 1)
        return F.kl_div(said_NV, told_NV, reduction="batchmean")

    return taught(parts, Taught(compare=compare))


@fault(dose=8, ladder=(8, 4, 2))
def temperature_unscaled(parts: Parts, dose: float) -> Parts:
    """Both are softened, and nothing makes up for it."""

    def compare(student_BTV: Tensor, teacher_BTV: Tensor) -> Tensor:
        said_NV = (
            (student_BTV / dose).log_softmax(-1).flatten(0, 1)
        )  # planted: temperature_unscaled
        told_NV = (teacher_BTV / dose).softmax(-1).flatten(0, 1)
        return F.kl_div(said_NV, told_NV, reduction="batchmean")

    return taught(parts, Taught(compare=compare))


@fault(dose=50, ladder=(200, 50, 20))
def temperature_too_high(parts: Parts, dose: float) -> Parts:
    """Softened until all tokens are alike."""

    def compare(student_BTV: Tensor, teacher_BTV: Tensor) -> Tensor:
        return divergence(student_BTV, teacher_BTV, dose)  # planted: temperature_too_high

    return taught(parts, Taught(compare=compare, mix=lambda lesson, labels: lesson))


@fault(dose=0.05, ladder=(0.0, 0.05, 0.1, 0.2))
def weights_swapped(parts: Parts, dose: float) -> Parts:
    """The small weight is on the teacher."""

    def mix(lesson: Tensor, labels: Tensor) -> Tensor:
        return dose * lesson + (1 - dose) * labels  # planted: weights_swapped

    return taught(parts, Taught(mix=mix))
