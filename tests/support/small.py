"""A model and data small enough to train in a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from lossleuth.reference.train.data import Batch, BatchOrder, Span, make_batch, make_windows
from lossleuth.reference.train.model import LanguageModel, ModelShape
from lossleuth.reference.train.settings import TrainSettings

VOCABULARY = 20
CONTEXT = 16

SETTINGS = TrainSettings(
    context=CONTEXT, batch=4, layers=2, heads=2, width=16, steps=8, warmup=2, lr=1e-2
)


def small_model(seed: int = 0, **changes: Any) -> LanguageModel:
    """A transformer of a few thousand parameters."""
    torch.manual_seed(seed)
    fields: dict[str, Any] = {
        "vocabulary": VOCABULARY,
        "context": CONTEXT,
        "layers": 2,
        "heads": 2,
        "width": 16,
        "positions": "rotary",
    }
    return LanguageModel(ModelShape(**fields | changes))


def small_tokens(count: int = 2000) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """A token stream with structure to learn."""
    steps = np.random.default_rng(0).integers(1, 4, count)
    return (np.cumsum(steps) % (VOCABULARY - 2) + 2).astype(np.uint16)


def small_loader(batch: int = 4, seed: int = 0) -> Callable[[int], Batch]:
    """Batches of the small token stream."""
    tokens = small_tokens()
    windows = make_windows([Span(0, len(tokens) - 1)], CONTEXT, CONTEXT)
    order = BatchOrder(len(windows), batch, seed)
    return lambda k: make_batch(tokens, windows, order.at(k))
