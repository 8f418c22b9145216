"""Settings, text and models small enough to distil in a test."""

from __future__ import annotations

from typing import Any

import torch

from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.train.data import IGNORED, Batch
from lossleuth.reference.train.model import LanguageModel, ModelShape
from lossleuth.reference.train.settings import TrainSettings

TEXT = "".join(
    f"she sells {n} sea shells by the {place} shore; the shells she sells are {kind} shells. "
    for n in range(12)
    for place in ("north", "south", "far")
    for kind in ("sea", "round", "small")
)
TEACHER = TrainSettings(
    context=16, batch=8, layers=2, heads=2, width=32, steps=120, warmup=10, lr=1e-2,
    evaluate_every=120, checkpoint_every=120,
)  # fmt: skip
SETTINGS = DistilSettings(
    context=16, batch=4, layers=1, heads=2, width=16, steps=8, warmup=2, lr=1e-2,
    evaluate_every=4, checkpoint_every=3, temperature=2.0,
)  # fmt: skip
VOCABULARY = 20


def model(seed: int = 0, **changes: Any) -> LanguageModel:
    """A transformer of a few thousand parameters."""
    torch.manual_seed(seed)
    fields: dict[str, Any] = {
        "vocabulary": VOCABULARY,
        "context": 16,
        "layers": 2,
        "heads": 2,
        "width": 16,
        "positions": "rotary",
    }
    return LanguageModel(ModelShape(**fields | changes))


def batch(seed: int = 0, rows: int = 3, masked: int = 4) -> Batch:
    """Random tokens, of which the last few of the first row are not supervised."""
    drawn = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, VOCABULARY, (rows, 17), generator=drawn)
    targets = tokens[:, 1:].clone()
    if masked:
        targets[0, -masked:] = IGNORED
    return Batch(tokens[:, :-1].clone(), targets, torch.arange(rows).numpy())


def empty_batch(rows: int = 3) -> Batch:
    """No supervised token at all."""
    full = batch(rows=rows)
    return Batch(full.inputs_BT, torch.full_like(full.targets_BT, IGNORED), full.windows)
