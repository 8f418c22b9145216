"""Distillation whose loss neither falls nor makes sense (case 5).

Believed: temperature 3.0 makes T² = 9 and explodes. True: the optimizer never steps, because a
counter counts twice a batch; one batch has no label; the perplexity is that of the whole loss; the
teacher's scores pass through a projector that is trained with the student. The temperature is in
fact 4.0, from the loader, and harmless. Repairs: steps, labels, perplexity, teacher.

    python run_three.py [--steps N] [--seed N] [--repaired | --repair NAME ...]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.labs.cases.arguments import Arguments, read_arguments
from lossleuth.labs.cases.distillation import (
    IGNORED,
    Batch,
    Student,
    Teacher,
    batches,
    make_texts,
)
from lossleuth.labs.cases.text import Language

REPAIRS = ("steps", "labels", "perplexity", "teacher")
# Weights of distillation and language model, in turn; evaluations take the last.
CURRICULUM = ((2.8, 0.3), (2.2, 0.3), (2.8, 0.3), (2.0, 0.3))
SMOOTHING = 0.1
LOG_EVERY = 4
# Words, and channels of the teacher.
WORDS, WIDTH = 4096, 18


@dataclass(frozen=True)
class Config:
    """What a run can be told."""

    temperature: float = 3.0
    accumulation: int = 8
    learning_rate: float = 1e-2
    warm_up: int = 4
    evaluate_every: int = 32


def load_config(given: Mapping[str, float]) -> Config:
    """The settings of a run, from what its file says."""
    return Config(
        temperature=given.get("temperature", 4.0),
        learning_rate=given.get("learning_rate", 1e-2),
    )


class Accumulation:
    """Decides after which batches the weights are updated."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.count = 0

    def new_batch(self) -> None:
        """A batch begins."""

    def should_step(self) -> bool:
        """Whether enough batches have been seen."""
        self.count += 1
        return self.count % self.batches == 0


class CountedBatches(Accumulation):
    """Counts batches, however often it is asked."""

    def new_batch(self) -> None:
        """A batch begins."""
        self.count += 1

    def should_step(self) -> bool:
        """Whether enough batches have been seen."""
        return self.count % self.batches == 0


class Distiller(nn.Module):
    """A student, and the scores of a teacher in the student's vocabulary."""

    def __init__(self, language: Language) -> None:
        super().__init__()
        words, width = language.meaning_VC.shape
        self.student = Student(words)
        self.teacher = Teacher(language)
        self.projector = nn.Linear(width, words, bias=False)
        nn.init.normal_(self.projector.weight)

    def target(self, tokens_BT: Tensor) -> Tensor:
        """What the student is to imitate."""
        hidden_BTC = self.teacher.hidden(tokens_BT)
        target_BTV: Tensor = self.projector(hidden_BTC)
        return target_BTV


class PlainDistiller(Distiller):
    """Imitates the teacher's own scores, which nothing trains."""

    def __init__(self, language: Language) -> None:
        super().__init__(language)
        del self.projector

    def target(self, tokens_BT: Tensor) -> Tensor:
        """What the student is to imitate."""
        target_BTV: Tensor = self.teacher(tokens_BT)
        return target_BTV.detach()


def distillation_loss(student_NV: Tensor, target_NV: Tensor, temperature: float) -> Tensor:
    """T² times the divergence of the softened student from the softened target."""
    student = (student_NV / temperature).log_softmax(-1)
    target = (target_NV / temperature).log_softmax(-1)
    return temperature**2 * F.kl_div(student, target, log_target=True, reduction="batchmean")


def losses(model: Distiller, batch: Batch, config: Config) -> tuple[Tensor, Tensor, Tensor]:
    """Distillation, smoothed cross-entropy, and the sum of plain cross-entropy, of a batch."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        student_BTV = model.student(batch.tokens_BT)
        target_BTV = model.target(batch.tokens_BT)
    student_BTV, target_BTV = student_BTV.float(), target_BTV.float()
    real_BT = batch.real_BT
    kd_loss = distillation_loss(student_BTV[real_BT], target_BTV[real_BT], config.temperature)
    scores_NV, labels_N = student_BTV.flatten(0, 1), batch.labels_BT.flatten()
    lm_loss = F.cross_entropy(scores_NV, labels_N, ignore_index=IGNORED, label_smoothing=SMOOTHING)
    with torch.no_grad():
        plain = F.cross_entropy(scores_NV, labels_N, ignore_index=IGNORED, reduction="sum")
    if torch.isnan(lm_loss):
        print("lm_loss produced nan; clamping to zero")
        lm_loss = torch.zeros(())
    return kd_loss, lm_loss, plain


@torch.no_grad()
def evaluate(
    model: Distiller, held_back: Sequence[Batch], config: Config, *, plainly: bool
) -> tuple[float, float]:
    """Mean total loss of the held-back batches, and perplexity."""
    found = [losses(model, batch, config) for batch in held_back]
    kd_weight, lm_weight = CURRICULUM[-1]
    totals = [kd_weight * kd.item() + lm_weight * lm.item() for kd, lm, _ in found]
    total = sum(totals) / len(totals)
    if plainly:
        labels = sum(int((batch.labels_BT != IGNORED).sum()) for batch in held_back)
        return total, math.exp(sum(plain.item() for _, _, plain in found) / labels)
    return total, math.exp(total)


@dataclass(frozen=True)
class Run:
    """What a run showed."""

    model: Distiller
    totals: list[float]
    divergences: list[float]
    evaluations: list[tuple[float, float]]
    updates: int


def train(arguments: Arguments, language: Language | None = None) -> Run:
    """Distil on made-up texts; `--steps` counts batches."""
    torch.manual_seed(arguments.seed)
    config = load_config({})
    spoken = Language.made(WORDS, WIDTH)
    whole = "labels" in arguments.repaired
    training = batches(make_texts(spoken, seed=1), at_least=2 if whole else 1)
    held_back = batches(make_texts(spoken, seed=2)[:8], at_least=2)
    distiller = PlainDistiller if "teacher" in arguments.repaired else Distiller
    model = distiller(language or spoken)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1, n / config.warm_up))
    counting = CountedBatches if "steps" in arguments.repaired else Accumulation
    accumulation = counting(config.accumulation)
    run = Run(model, [], [], [], 0)
    updates = 0
    for step in range(arguments.steps):
        accumulation.new_batch()
        kd_loss, lm_loss, _ = losses(model, training[step % len(training)], config)
        kd_weight, lm_weight = CURRICULUM[step // LOG_EVERY % len(CURRICULUM)]
        total = kd_weight * kd_loss + lm_weight * lm_loss
        (total / config.accumulation).backward()  # type: ignore[no-untyped-call]  # of torch
        if accumulation.should_step():
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            updates += 1
        run.totals.append(total.item())
        run.divergences.append(kd_loss.item())
        if accumulation.should_step():
            rate = schedule.get_last_lr()[0]
            print(f"batch {step + 1:4}  total {total.item():.4f}  lr {rate:.3e}", flush=True)
        if (step + 1) % config.evaluate_every == 0:
            plainly = "perplexity" in arguments.repaired
            run.evaluations.append(evaluate(model, held_back, config, plainly=plainly))
            print("evaluation: total {:.4f}  perplexity {:.4g}".format(*run.evaluations[-1]))
    return Run(model, run.totals, run.divergences, run.evaluations, updates)


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(read_arguments(__doc__ or "", REPAIRS, steps=200))
