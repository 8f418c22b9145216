"""A small training, run with the real hooks and any interventions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.interventions.intervention import Intervention
from lossleuth.observe.patches.hooks import Hooks
from lossleuth.observe.session import Session
from lossleuth.observe.steps.observer import Observer
from lossleuth.record.write import RecordWriter

VOCABULARY = 11
# What the same teacher says of every batch.
TEACHER_LOGITS = 2 * torch.randn(4, 5, VOCABULARY, generator=torch.Generator().manual_seed(4))


@dataclass
class Ran:
    """The losses of a run and the weights at its end."""

    losses: list[float]
    weights: Tensor

    def is_exactly(self, other: Ran) -> bool:
        return self.losses == other.losses and torch.equal(self.weights, other.weights)

    def distance(self, other: Ran) -> float:
        """The largest difference between weights."""
        return float((self.weights - other.weights).abs().max())


def with_changes(program: Callable[[], Ran], *interventions: Intervention) -> Ran:
    """Run a program with our hooks in; none of them may fail."""
    session = Session()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        observer = Observer(lambda: RecordWriter.create(place, {}, print), session)
        hooks = Hooks(observer, interventions=interventions)
        hooks.install()
        try:
            found = program()
        finally:
            observer.finish({"how": "test"})
            session.close()
    assert session.failures.count == 0, session.failures.sentence()
    return found


class Net(nn.Module):
    """Tokens to scores, with a place to plant something in."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 8)
        self.head = nn.Linear(8, VOCABULARY)
        self.between: Callable[[Tensor], Tensor] = torch.tanh

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.between(self.table(tokens)))


class WrongTanh(torch.autograd.Function):
    """Its backward forgets a square."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = torch.tanh(x)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        return gradient * (1 - out)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1.0)


def entropy(scores: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def batch(step: int) -> Tensor:
    generator = torch.Generator().manual_seed(step)
    return torch.randint(0, VOCABULARY, (4, 6), generator=generator)


def trained(
    steps: int = 5,
    make: Callable[[Any], torch.optim.Optimizer] = adamw,
    loss_of: Callable[[Tensor, Tensor], Tensor] = entropy,
    *,
    plant: Callable[[Net], object] = lambda net: None,
    clear: Callable[[torch.optim.Optimizer], object] = lambda o: o.zero_grad(),
    before_step: Callable[[Net], object] = lambda net: None,
    schedule: Callable[[torch.optim.Optimizer], Any] | None = None,
    held: Callable[[Net], Any] = lambda net: net.parameters(),
    dtype: torch.dtype = torch.float32,
    batch_of: Callable[[int], Tensor] = batch,
) -> Ran:
    """Train; everything that a fault could be planted in can be given."""
    torch.manual_seed(0)
    net = Net().to(dtype)
    plant(net)
    optimizer = make(held(net))
    schedules = schedule(optimizer) if schedule else None
    losses = []
    for step in range(steps):
        tokens = batch_of(step)
        loss = loss_of(net(tokens[:, :-1]), tokens[:, 1:])
        clear(optimizer)
        loss.backward()
        before_step(net)
        optimizer.step()
        if schedules is not None:
            schedules.step()
        losses.append(loss.item())
    return Ran(losses, torch.cat([p.detach().double().flatten() for p in net.parameters()]))
