"""The control: the same distillation with the teacher's answers shuffled.

Each position is taught by the answer to another one. What such a teacher still gives, the mean of
its distributions, is no knowledge of the text: a student that does as well with it has learnt
nothing from the teacher.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lossleuth.reference.distil.assembly import assemble
from lossleuth.reference.distil.loop import distil
from lossleuth.reference.distil.outputs import LogitsOnly
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.train.data import make_batch
from lossleuth.reference.train.evaluate import window_sums

CLEAR = 3.0


@dataclass(frozen=True)
class Control:
    """True losses with the teacher and with a shuffled one, and the error of their difference."""

    loss: float
    shuffled: float
    standard_error: float

    @property
    def transfers(self) -> bool:
        """Whether the teacher's answers, and not only its being there, made the difference.

        >>> Control(1.0, 1.2, 0.01).transfers, Control(1.0, 1.01, 0.01).transfers
        (True, False)
        """
        return self.shuffled - self.loss > CLEAR * self.standard_error

    def sentence(self) -> str:
        """The verdict in one line.

        >>> Control(1.0, 1.01, 0.01).sentence()
        'control: this distillation transfers nothing: true loss 1.0000 with the teacher, 1.0100 \
with a shuffled one, difference +0.0100 ± 0.0100 (over validation windows, one seed)'
        """
        verdict = (
            "knowledge is transferred" if self.transfers else "this distillation transfers nothing"
        )
        return (
            f"control: {verdict}: true loss {self.loss:.4f} with the teacher, {self.shuffled:.4f} "
            f"with a shuffled one, difference {self.shuffled - self.loss:+.4f} ± "
            f"{self.standard_error:.4f} (over validation windows, one seed)"
        )


def run_control(settings: DistilSettings, steps: int, sums: NDArray[np.float64]) -> Control:
    """Distil again from the same start with a shuffled teacher, and compare pair by pair.

    `sums` are the losses of the validation windows after as many `steps` of the run itself.
    """
    assembly = assemble(replace(settings, shuffle_teacher=True))
    prepared = assembly.prepared
    for step in distil(
        assembly.student,
        assembly.optimizer,
        lambda k: make_batch(prepared.tokens, prepared.training, assembly.order.at(k)),
        assembly.objective,
    ):
        if step.step + 1 == steps:
            break
    shuffled = window_sums(
        LogitsOnly(assembly.student),
        prepared.tokens,
        prepared.validation,
        batch=settings.batch,
        precision=settings.precision,
        kernel=settings.loss_kernel,
    )
    return compare(sums, shuffled, prepared.validation.lengths)


def compare(
    sums: NDArray[np.float64], shuffled: NDArray[np.float64], lengths: NDArray[np.int64]
) -> Control:
    """Means per token, and the standard error of their difference over windows.

    >>> found = compare(np.array([1.0, 3.0]), np.array([2.0, 4.0]), np.array([1, 1]))
    >>> found.loss, found.shuffled, found.standard_error
    (2.0, 3.0, 0.0)
    """
    tokens, count = int(lengths.sum()), len(sums)
    gaps = shuffled - sums
    residuals = gaps - gaps.sum() / tokens * lengths
    spread = math.sqrt((residuals**2).sum() * count / (count - 1)) if count > 1 else math.nan
    return Control(float(sums.sum()) / tokens, float(shuffled.sum()) / tokens, spread / tokens)
