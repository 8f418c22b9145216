"""Does a teacher help? The same student from a teacher, from data alone, from a shuffled teacher.

All arms have the same start, batches, steps and tokens; only what is minimised differs. What is
compared is the true loss on documents that neither teacher nor student has seen.
"""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from lossleuth.reference.distil.assembly import Assembly, assemble
from lossleuth.reference.distil.loop import distil
from lossleuth.reference.distil.measure import true_loss
from lossleuth.reference.distil.objective import Objective
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.train.data import BatchOrder, make_batch
from lossleuth.reference.train.loop import make_optimizer
from lossleuth.reference.train.model import LanguageModel
from lossleuth.reference.train.session import Session, model_shape
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.settings import Resolved

SEEDS = (1, 2, 3)
CLEAR = 3.0
TEACHER = TrainSettings(
    context=64, batch=16, layers=3, heads=4, width=128, steps=500, evaluate_every=500, warmup=40
)
STUDENT = DistilSettings(
    context=64, batch=4, layers=2, heads=2, width=48, steps=350, warmup=35, lr=1e-2,
    temperature=1.0, distil_weight=1.0, data_weight=0.0,
)  # fmt: skip
ARMS = {
    "data alone": replace(STUDENT, distil_weight=0.0, data_weight=1.0),
    "teacher": STUDENT,
    "shuffled teacher": replace(STUDENT, shuffle_teacher=True),
}


def run(console: Console) -> None:
    """Train the teacher, then every arm with every seed, and print the effects."""
    began = time.perf_counter()
    with TemporaryDirectory() as directory:
        teacher = train_teacher(Path(directory) / "teacher")
        assembly = assemble(replace(STUDENT, teacher=str(teacher)))
        losses = {
            arm: np.array([student_loss(assembly, settings, seed) for seed in SEEDS])
            for arm, settings in ARMS.items()
        }
    tokens = STUDENT.steps * STUDENT.batch * STUDENT.context
    teachers = assembly.teacher_result
    count = sum(p.numel() for p in assembly.student.parameters())
    table = Table("learnt from", "true loss", "against data alone", "effect / s.e.")
    for arm, found in losses.items():
        gains = losses["data alone"] - found
        effect, error = float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))
        shown = ("", "") if arm == "data alone" else (
            f"{effect:+.4f} ± {error:.4f}", f"{effect / error:+.1f}"
        )  # fmt: skip
        table.add_row(arm, f"{found.mean():.4f}", *shown)
    console.print(table)
    console.print(
        f"teacher: true loss {teachers.loss:.4f} ± {teachers.standard_error:.4f}; student: "
        f"{count:,} parameters, {tokens:,} tokens in each arm, {len(SEEDS)} seeds; "
        f"{time.perf_counter() - began:.0f} s",
        highlight=False,
    )


def train_teacher(directory: Path) -> Path:
    """A teacher by the reference trainer."""
    sources = dict.fromkeys(TEACHER.__dataclass_fields__, "benchmark")
    Session(Resolved(TEACHER, sources), directory, Console(file=io.StringIO())).run()
    return directory


def student_loss(assembly: Assembly, settings: DistilSettings, seed: int) -> float:
    """True loss of a student of this seed: its weights and batches, but the same split of text."""
    prepared, teacher = assembly.prepared, assembly.teacher
    torch.manual_seed(seed)
    student = LanguageModel(model_shape(assembly.of_student, prepared.tokenizer))
    teacher.shuffled = seed if settings.shuffle_teacher else None
    order = BatchOrder(len(prepared.training), settings.batch, seed)
    for _ in distil(
        student,
        make_optimizer(student, settings),
        lambda k: make_batch(prepared.tokens, prepared.training, order.at(k)),
        Objective(settings, settings.curriculum, teacher),
    ):
        pass
    return true_loss(student, prepared, settings.batch, settings.precision).loss
