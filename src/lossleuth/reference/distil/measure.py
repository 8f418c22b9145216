"""What is measured: always the same, whatever is minimised.

The true loss is the trainer's: unsmoothed cross-entropy per token of the whole validation set.
Beside it stand the divergence from the teacher at temperature 1, how often both have the same
first choice, and the parts of what is minimised, each with its share of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from lossleuth.reference.distil.losses import logit_losses
from lossleuth.reference.distil.objective import Objective
from lossleuth.reference.distil.outputs import LogitsOnly
from lossleuth.reference.distil.row_terms import ForwardKL
from lossleuth.reference.distil.teacher import FrozenTeacher
from lossleuth.reference.train.data import IGNORED, Batch, validation_batches
from lossleuth.reference.train.evaluate import Evaluation, evaluate
from lossleuth.reference.train.loss import supervised_count
from lossleuth.reference.train.precision import autocast
from lossleuth.reference.train.prepare import Prepared


@dataclass(frozen=True)
class Nearness:
    """KL(teacher ‖ student) at T = 1 in nats per token with its standard error, and the share of
    positions at which both have the same first choice."""

    kl: float
    standard_error: float
    agreement: float

    def sentence(self) -> str:
        """All of it in one line.

        >>> Nearness(0.25, 0.01, 0.8).sentence()
        'KL from the teacher 0.2500 ± 0.0100 nats/token at T = 1, same first choice at 80.0 %'
        """
        return (
            f"KL from the teacher {self.kl:.4f} ± {self.standard_error:.4f} nats/token at T = 1, "
            f"same first choice at {100 * self.agreement:.1f} %"
        )


@dataclass(frozen=True)
class Component:
    """A part of the loss on one batch; the shares of all parts sum to 1."""

    name: str
    raw: float
    weight: float
    share: float

    @property
    def weighted(self) -> float:
        """What the part adds to what is minimised."""
        return self.raw * self.weight


def true_loss(
    model: nn.Module, prepared: Prepared, batch: int, precision: str, kernel: str = "auto"
) -> Evaluation:
    """The trainer's evaluation of a model that may be anybody's."""
    return evaluate(
        LogitsOnly(model),
        prepared.tokens,
        prepared.validation,
        batch=batch,
        target_bytes=prepared.validation_bytes,
        unknown_share=prepared.validation_unknown,
        precision=precision,
        kernel=kernel,
    )


def nearness(
    student: nn.Module,
    teacher: FrozenTeacher,
    prepared: Prepared,
    batch: int,
    precision: str,
    kernel: str = "auto",
) -> Nearness | None:
    """How near a student is to its teacher; None where their vocabularies share no names."""
    if teacher.match.kind == "sorted":
        return None
    theirs, sums, same = teacher.as_model(), [], 0
    windows = prepared.validation
    with _evaluating(student), torch.inference_mode():
        device = next(student.parameters()).device
        for part in validation_batches(prepared.tokens, windows, batch):
            inputs_BT, targets_BT = part.inputs_BT.to(device), part.targets_BT.to(device)
            with autocast(device, precision):
                ours_BTV, theirs_BTV = LogitsOnly(student)(inputs_BT), theirs(inputs_BT)
            agree_BT = ours_BTV.argmax(-1) == theirs_BTV.argmax(-1)
            same += int((agree_BT & (targets_BT != IGNORED)).sum())
            for rows in zip(ours_BTV, theirs_BTV, targets_BT, strict=True):
                sums.append(_divergence(*rows, kernel))
    kl = math.fsum(sums) / windows.targets
    residuals = np.array(sums) - kl * windows.lengths
    count = len(sums)
    spread = float(np.sqrt((residuals**2).sum() * count / (count - 1))) if count > 1 else math.nan
    return Nearness(kl, spread / windows.targets, same / windows.targets)


def components(
    objective: Objective, student: nn.Module, batch: Batch, k: int, step: int
) -> list[Component]:
    """The parts of the loss on a batch, and the share that each has in the gradient.

    A part's share is the length of its gradient along the whole one: parts that pull against it
    have a negative share. Dropout is off, so nothing random is drawn.
    """
    weights = objective.curriculum.weights(step)
    tokens = supervised_count(batch.targets_BT)
    parameters = [p for p in student.parameters() if p.requires_grad]
    gradients, raw = {}, {}
    with _evaluating(student):
        for name in weights:
            value = objective(student, batch, k, step, tokens, only=name)
            raw = dict(value.parts)
            gradients[name] = _flat(
                torch.autograd.grad(value.total, parameters, allow_unused=True), parameters
            )
    whole = torch.stack(list(gradients.values())).sum(0)
    square = float(whole @ whole)
    return [
        Component(
            name,
            raw[name],
            weights[name],
            float(gradients[name] @ whole) / square if square else math.nan,
        )
        for name in weights
    ]


def component_table(parts: list[Component]) -> list[str]:
    """The parts as lines of text.

    >>> print(*component_table([Component("distil", 2.0, 0.5, 0.75)]), sep="\\n")
      part            raw  weight  weighted  share of gradient
      distil       2.0000   0.500    1.0000             75.0 %
    """
    lines = [f"  {'part':<11} {'raw':>7}  weight  weighted  share of gradient"]
    for part in parts:
        lines.append(
            f"  {part.name:<11} {part.raw:>7.4f}  {part.weight:>6.3f}  {part.weighted:>8.4f}  "
            f"{100 * part.share:>15.1f} %"
        )
    return lines


def comparison_table(rows: dict[str, Evaluation]) -> list[str]:
    """Models beside each other as lines of text.

    >>> rows = {"teacher": Evaluation(1.0, 0.01, tokens=10, bytes=20)}
    >>> print(*comparison_table(rows), sep="\\n")
      model                 true loss  perplexity    bits per byte
      teacher         1.0000 ± 0.0100        2.72  0.7213 ± 0.0072
    """
    lines = [f"  {'model':<13} {'true loss':>17}  perplexity  {'bits per byte':>15}"]
    for name, found in rows.items():
        bits = found.bits_per_byte
        shown = "undefined"
        if bits is not None:
            shown = f"{bits:.4f} ± {found.standard_error * bits / found.loss:.4f}"
        loss = f"{found.loss:.4f} ± {found.standard_error:.4f}"
        lines.append(f"  {name:<13} {loss:>17}  {found.perplexity:>10.2f}  {shown:>15}")
    return lines


def _divergence(student_TV: Tensor, teacher_TV: Tensor, targets_T: Tensor, kernel: str) -> float:
    terms = [(ForwardKL(kernel=kernel), 1.0)]
    _, raw = logit_losses(student_TV, teacher_TV, targets_T, terms, tokens=1)
    return float(raw[0])


def _flat(gradients: tuple[Tensor | None, ...], parameters: list[nn.Parameter]) -> Tensor:
    filled = (
        torch.zeros_like(p) if g is None else g for g, p in zip(gradients, parameters, strict=True)
    )
    return torch.cat([gradient.flatten().double() for gradient in filled])


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
