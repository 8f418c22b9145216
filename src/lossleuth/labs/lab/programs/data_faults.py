"""Faults in what a script reads: targets, padding, batches.

Shapes: B rows, T positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.labs.lab.programs.made_up_text import PAD
from lossleuth.labs.lab.programs.planting import fault
from lossleuth.labs.lab.programs.training_parts import IGNORED, Batch, Parts, Settings, windows


@fault(dose=2, ladder=(2, 0, -1))
def label_offset(parts: Parts, dose: float) -> Parts:
    """Targets are shifted by another number than one."""
    shift = int(dose)

    def batches(settings: Settings) -> Iterator[Batch]:
        for window_BT in windows(settings):
            last = window_BT.shape[1] - max(shift, 1)
            inputs_BT = window_BT[:, max(-shift, 0) : last]
            targets_BT = window_BT[:, max(shift, 0) :][
                :, : inputs_BT.shape[1]
            ]  # planted: label_offset
            yield Batch(inputs_BT, targets_BT)

    return replace(parts, batches=batches)


@fault(dose=10, ladder=(1, 10, 40))
def labels_all_masked(parts: Parts, dose: float) -> Parts:
    """Every so many batches consist of prompts only, whose targets all count for nothing."""
    healthy = parts.batches

    def batches(settings: Settings) -> Iterator[Batch]:
        for number, batch in enumerate(healthy(settings), 1):
            targets_BT = batch.targets_BT
            if number % int(dose) == 0:
                targets_BT = torch.full_like(targets_BT, IGNORED)  # planted: labels_all_masked
            yield Batch(batch.inputs_BT, targets_BT)

    return replace(parts, batches=batches)


@fault()
def answer_delimiter_only(parts: Parts, dose: float) -> Parts:
    """Of each row only the last token counts, and that is the same in all."""
    healthy = parts.batches

    def batches(settings: Settings) -> Iterator[Batch]:
        for inputs_BT, targets_BT in healthy(settings):
            counted_BT = torch.full_like(targets_BT, IGNORED)
            counted_BT[:, -1] = PAD  # planted: answer_delimiter_only
            yield Batch(inputs_BT, counted_BT)

    return replace(parts, batches=batches)


@fault(dose=0.5, ladder=(0.5, 0.25, 0.1))
def pad_in_loss(parts: Parts, dose: float) -> Parts:
    """Rows end early, are filled up with padding, and the loss is not told to ignore it."""

    def batches(settings: Settings) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(settings.seed + 1)
        for window_BT in windows(settings):
            rows, length = window_BT.shape
            shortest = round(length * (1 - 2 * dose)) if dose < 0.5 else 4
            ends_B = torch.randint(max(shortest, 4), length, (rows,), generator=generator)
            past_BT = torch.arange(length) >= ends_B[:, None]
            padded_BT = window_BT.masked_fill(past_BT, PAD)
            yield Batch(padded_BT[:, :-1], padded_BT[:, 1:])

    def loss(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        return F.cross_entropy(  # planted: pad_in_loss
            logits_BTV.flatten(0, 1), targets_BT.flatten()
        )

    return replace(parts, batches=batches, loss=loss)


@fault(dose=1.0, ladder=(1.0, 0.9, 0.8, 0.5))
def label_noise(parts: Parts, dose: float) -> Parts:
    """Targets are taken from other rows than inputs, for that share of the rows."""
    healthy = parts.batches

    def batches(settings: Settings) -> Iterator[Batch]:
        generator = torch.Generator().manual_seed(settings.seed + 1)
        for inputs_BT, targets_BT in healthy(settings):
            rows = len(targets_BT)
            shift = int(torch.randint(1, rows, (1,), generator=generator))
            mixed = torch.arange(rows) < dose * rows
            rolled_BT = targets_BT.roll(shift, 0)
            mixed_BT = torch.where(mixed[:, None], rolled_BT, targets_BT)  # planted: label_noise
            yield Batch(inputs_BT, mixed_BT)

    return replace(parts, batches=batches)


@fault(dose=1, ladder=(1, 4, 16, 40))
def repeated_batch(parts: Parts, dose: float) -> Parts:
    """The reader is made anew after a few batches, and begins where it began before."""
    healthy = parts.batches

    def batches(settings: Settings) -> Iterator[Batch]:
        while True:
            reader = healthy(settings)
            for _ in range(int(dose)):
                yield next(reader)  # planted: repeated_batch

    return replace(parts, batches=batches)
