"""The teacher: frozen by construction, whatever it was made of.

In evaluation mode, without gradient, and with nothing that could be trained between its logits and
the target. Its weights are compared with themselves before and after the run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from lossleuth.reference.distil.alignment import Alignment
from lossleuth.reference.distil.losses import Rows
from lossleuth.reference.distil.outputs import LogitsOnly, Outputs, logits_of, look
from lossleuth.reference.distil.vocabularies import Match
from lossleuth.reference.train.data import Batch, Windows
from lossleuth.reference.train.precision import autocast
from lossleuth.types.errors import BadInput


@dataclass(frozen=True)
class Answer:
    """What the teacher says about a batch, and with which of the student's rows to compare it."""

    outputs: Outputs
    rows: Rows


class FrozenTeacher:
    """A model to learn from, that never changes.

    >>> teacher = FrozenTeacher(nn.Linear(2, 2).train(), Match("exact", ""))
    >>> teacher.module.training, [p.requires_grad for p in teacher.module.parameters()]
    (False, [False, False])
    """

    def __init__(
        self,
        module: nn.Module,
        match: Match,
        *,
        precision: str = "float32",
        shuffled: int | None = None,
    ) -> None:
        self.module = module.eval().requires_grad_(False)
        self.match = match
        self.columns = match.ids
        self.precision = precision
        self.shuffled = shuffled
        """Seed of the control, in which every answer is one to another position."""
        self._aligned: tuple[Alignment, Windows] | None = None
        self._before = self._fingerprint()

    @property
    def device(self) -> torch.device:
        """Where the teacher computes."""
        first = next(self.module.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    def align(self, alignment: Alignment, windows: Windows) -> None:
        """Read the data in the teacher's own tokens."""
        self._aligned = alignment, windows

    @torch.no_grad()
    def fit_width(self, student: int, *, named: bool) -> None:
        """Take the student's columns of wider logits, or refuse logits of another vocabulary."""
        if self.match.kind == "sorted":
            return
        width = logits_of(self.module, torch.zeros(1, 2, dtype=torch.long).to(self.device)).size(-1)
        needed = student if self.match.ids is None else int(self.match.ids.max()) + 1
        if width < needed or (width != student and not named):
            raise BadInput(
                f"a teacher with the student's vocabulary of {student} tokens",
                f"{width} logits at each position",
                "use the teacher's tokenizer, or give the teacher one to be compared by text",
            )
        if self.columns is None and width > student:
            self.columns = torch.arange(student)
        if self.columns is not None:
            self.columns = self.columns.to(self.device)

    @torch.no_grad()
    def answer(
        self, batch: Batch, k: int, *, hidden: bool = False, attention: bool = False
    ) -> Answer:
        """The teacher's outputs for the k-th batch of the run; a pure function of the two."""
        if self.module.training:
            raise RuntimeError("the teacher was put in training mode: it must stay as it is")
        inputs_BT = batch.inputs_BT.to(self.device)
        if self._aligned is not None:
            alignment, windows = self._aligned
            aligned = alignment.batch(batch, windows)
            inputs_BT = aligned.inputs_BU.to(self.device)
            rows = Rows(aligned.student_n, aligned.teacher_n)
        else:
            if self.match.ids is not None:
                inputs_BT = self.match.ids.to(self.device)[inputs_BT]
            rows = Rows.supervised(batch.targets_BT.to(self.device))
        with autocast(self.device, self.precision):
            outputs = look(self.module, inputs_BT, hidden=hidden, attention=attention)
        if self.shuffled is None:
            return Answer(outputs, self._placed(rows, rows.teacher_n))
        return self._shuffled(outputs, rows, np.random.default_rng((self.shuffled, k)))

    def as_model(self) -> nn.Module:
        """The teacher as a model over the student's tokens, to be measured like it."""
        return LogitsOnly(self.module, self.match.ids, self.columns).eval()

    def check_unchanged(self) -> None:
        """Refuse to call a run a distillation if its target moved."""
        if self._fingerprint() != self._before:
            raise RuntimeError("the teacher's weights changed during the run")

    def _placed(self, rows: Rows, teacher_n: Tensor) -> Rows:
        return Rows(rows.student_n.to(self.device), teacher_n.to(self.device), self.columns)

    def _shuffled(self, outputs: Outputs, rows: Rows, random: np.random.Generator) -> Answer:
        """Logits and states of another position, attention of another text: all that is taught."""
        order = torch.from_numpy(random.permutation(len(rows.teacher_n))).to(self.device)
        teacher_n = rows.teacher_n.to(self.device)
        hidden = []
        for state_BTE in outputs.hidden:
            moved_ME = state_BTE.flatten(0, 1).clone()
            moved_ME[teacher_n] = moved_ME[teacher_n[order]]
            hidden.append(moved_ME.view_as(state_BTE))
        texts = torch.from_numpy(random.permutation(len(outputs.logits_BTV))).to(self.device)
        attention = [look_BHTT[texts] for look_BHTT in outputs.attention]
        moved = Outputs(outputs.logits_BTV, hidden, attention)
        return Answer(moved, self._placed(rows, teacher_n[order]))

    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        tensors: list[Tensor] = [*self.module.parameters(), *self.module.buffers()]
        for tensor in tensors:
            digest.update(
                tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
            )
        return digest.hexdigest()
