"""Loops for the tests of observing, watched in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lossleuth.observe.patches.hooks import Hooks
from lossleuth.observe.session import Session
from lossleuth.observe.steps.observer import Observer
from lossleuth.record.read import Record
from lossleuth.record.write import RecordWriter


@contextmanager
def watching(folder: Path, tape: Sequence[int] = (), **more: Any) -> Iterator[Observer]:
    """Watch what happens in the block, into a record in `folder`."""
    warnings: list[str] = []
    session = Session()
    observer = Observer(lambda: RecordWriter.create(folder, {}, warnings.append), session, tape)
    hooks = Hooks(observer, **more)
    hooks.install()
    try:
        yield observer
    finally:
        observer.finish({"how": "test"})
        session.close()


def train(steps: int, each: Callable[[int], None] | None = None) -> list[float]:
    """A small loop with an embedding, cross-entropy and AdamW; returns its losses."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        tokens = torch.randint(0, 11, (4, 6))
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if each:
            each(step)
    return losses


def read(folder: Path) -> Record:
    return Record.open(folder)
