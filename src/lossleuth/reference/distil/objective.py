"""What is minimised: the parts of the loss, each with its weight at the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lossleuth.reference.distil.curriculum import Curriculum
from lossleuth.reference.distil.losses import Rows, logit_losses
from lossleuth.reference.distil.matching import (
    HeadMixer,
    WidthProjector,
    attention_matching,
    contrastive,
    hidden_matching,
    paired_layers,
)
from lossleuth.reference.distil.outputs import Outputs, look
from lossleuth.reference.distil.row_terms import (
    CrossEntropy,
    ForwardKL,
    JensenShannon,
    ReverseKL,
    SortedDifference,
    Term,
    TopK,
)
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.distil.teacher import Answer, FrozenTeacher
from lossleuth.reference.train.data import Batch
from lossleuth.reference.train.precision import autocast

INSIDE = ("hidden", "attention", "contrastive")


@dataclass(frozen=True)
class Value:
    """The loss of a batch: the sum that is minimised, and its parts before they are weighed."""

    total: Tensor
    parts: Mapping[str, float]


class Objective:
    """The loss of a student on a batch at a step."""

    def __init__(
        self,
        settings: DistilSettings,
        curriculum: Curriculum,
        teacher: FrozenTeacher,
        projectors: nn.ModuleDict | None = None,
    ) -> None:
        self.settings = settings
        self.curriculum = curriculum
        self.teacher = teacher
        self.projectors = projectors if projectors is not None else nn.ModuleDict()
        self.hidden = not {"hidden", "contrastive"}.isdisjoint(curriculum.parts)
        self.attention = "attention" in curriculum.parts

    def __call__(
        self,
        student: nn.Module,
        batch: Batch,
        k: int,
        step: int,
        tokens: int,
        *,
        only: str | None = None,
    ) -> Value:
        """The loss of the run's k-th batch; with `only`, the other parts weigh nothing."""
        weights = self.curriculum.weights(step)
        if only is not None:
            weights = {name: w if name == only else 0.0 for name, w in weights.items()}
        device = next(student.parameters()).device
        answer = self.teacher.answer(batch, k, hidden=self.hidden, attention=self.attention)
        with autocast(device, self.settings.precision):
            seen = look(
                student,
                batch.inputs_BT.to(device),
                hidden=self.hidden,
                attention=self.attention,
            )
        targets_BT = batch.targets_BT.to(device)
        total, parts = self._of_logits(seen, answer, targets_BT, weights, step, tokens)
        for name in INSIDE:
            if name in weights:
                value = self._inside(name, seen, answer.outputs, targets_BT, tokens)
                parts[name] = value.item()
                total = total + weights[name] * value
        return Value(total, parts)

    def _of_logits(
        self,
        seen: Outputs,
        answer: Answer,
        targets_BT: Tensor,
        weights: Mapping[str, float],
        step: int,
        tokens: int,
    ) -> tuple[Tensor, dict[str, float]]:
        divergence = self._divergence(self.curriculum.temperature(step))
        entropy = CrossEntropy(self.settings.label_smoothing, self.settings.loss_kernel)
        theirs = answer.outputs.logits_BTV
        if self.teacher.match.kind == "sorted":
            # Compared at fewer positions than are supervised, so by itself.
            one, raw_one = logit_losses(
                seen.logits_BTV, theirs, targets_BT, [(divergence, weights["distil"])],
                tokens=tokens, rows=answer.rows,
            )  # fmt: skip
            other, raw_other = logit_losses(
                seen.logits_BTV, None, targets_BT, [(entropy, weights["data"])],
                tokens=tokens, rows=Rows.supervised(targets_BT),
            )  # fmt: skip
            return one + other, {"distil": raw_one[0].item(), "data": raw_other[0].item()}
        terms: list[tuple[Term, float]] = [
            (divergence, weights["distil"]),
            (entropy, weights["data"]),
        ]
        total, raw = logit_losses(
            seen.logits_BTV, theirs, targets_BT, terms, tokens=tokens, rows=answer.rows
        )
        return total, {"distil": raw[0].item(), "data": raw[1].item()}

    def _divergence(self, temperature: float) -> Term:
        settings = self.settings
        if self.teacher.match.kind == "sorted":
            return SortedDifference(temperature)
        if settings.divergence == "reverse_kl":
            return ReverseKL(temperature)
        if settings.divergence == "jensen_shannon":
            return JensenShannon(settings.beta, temperature)
        if settings.top_k:
            return TopK(settings.top_k, temperature)
        return ForwardKL(temperature, settings.loss_kernel)

    def _inside(
        self, name: str, seen: Outputs, answer: Outputs, targets_BT: Tensor, tokens: int
    ) -> Tensor:
        if name == "contrastive":
            projector = self.projectors["contrastive"]
            return contrastive(
                seen.hidden[-1].float(), answer.hidden[-1], projector, targets_BT, tokens=tokens
            )
        match = hidden_matching if name == "hidden" else attention_matching
        ours, theirs = getattr(seen, name), getattr(answer, name)
        layers = paired_layers(len(ours), len(theirs))
        projectors = self.projectors[name]
        assert isinstance(projectors, nn.ModuleList)
        values = [
            match(mine.float(), theirs[layer], projectors[i], targets_BT, tokens=tokens)
            for i, (mine, layer) in enumerate(zip(ours, layers, strict=True))
        ]
        return torch.stack(values).mean()


def make_projectors(
    names: Mapping[str, object], student: Outputs, teacher: Outputs
) -> nn.ModuleDict:
    """What the parts that look inside need: one projector for each of the student's layers."""
    made = nn.ModuleDict()
    if "hidden" in names:
        layers = paired_layers(len(student.hidden), len(teacher.hidden))
        made["hidden"] = nn.ModuleList(
            WidthProjector(mine.size(-1), teacher.hidden[layer].size(-1))
            for mine, layer in zip(student.hidden, layers, strict=True)
        )
    if "attention" in names:
        layers = paired_layers(len(student.attention), len(teacher.attention))
        made["attention"] = nn.ModuleList(
            HeadMixer(mine.size(1), teacher.attention[layer].size(1))
            for mine, layer in zip(student.attention, layers, strict=True)
        )
    if "contrastive" in names:
        made["contrastive"] = WidthProjector(
            student.hidden[-1].size(-1), teacher.hidden[-1].size(-1)
        )
    return made
