"""The parts that a training script is made of. A planted fault replaces one or two of them.

Shapes: B rows, T positions, C channels, V tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from lossleuth.labs.lab.programs.made_up_text import Text

# A target that counts for nothing, as in torch.
IGNORED = -100


@dataclass(frozen=True)
class Settings:
    """What a user would set."""

    steps: int = 400
    seed: int = 0
    rows: int = 16
    length: int = 32
    width: int = 64
    layers: int = 2
    heads: int = 4
    rule: str = "adamw"
    rate: float = 3e-3
    warmup: int = 10
    text: Text = field(default_factory=Text)


class Batch(NamedTuple):
    """Tokens, and the token that follows each."""

    inputs_BT: Tensor
    targets_BT: Tensor


Closure = Callable[[], Any] | None


@dataclass(frozen=True)
class Parts:
    """A training script taken apart; hosts put it together, each in its own way."""

    host: str
    settings: Settings
    # From the settings: a model, and for the model what trains it.
    model: Callable[[Settings], nn.Module]
    forward: Callable[[Any, Tensor], Tensor]
    # The same forward pass in two halves, for whoever wants to get in between.
    embed: Callable[[Any, Tensor], Tensor]
    decode: Callable[[Any, Tensor], Tensor]
    # The layers that are run one after the other: who has them, under which name.
    stack: Callable[[Any], tuple[nn.Module, str]]
    # How a layer of this host attends.
    attend: Callable[..., Any]
    batches: Callable[[Settings], Iterator[Batch]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[nn.Module, Settings], Optimizer]
    schedule: Callable[[Optimizer, Settings], LRScheduler]
    clear: Callable[[Any], None]
    backward: Callable[[Tensor], None]
    before_update: Callable[[nn.Module, Any], None]
    update: Callable[[Any, Closure], None]
    micro_batches: int = 1


def windows(settings: Settings) -> Iterator[Tensor]:
    """Batches of windows of the text, one token longer than the model looks at."""
    text = settings.text.tokens()
    generator = torch.Generator().manual_seed(settings.seed)
    last = len(text) - settings.length - 1
    while True:
        starts_B = torch.randint(0, last, (settings.rows,), generator=generator)
        yield text[starts_B[:, None] + torch.arange(settings.length + 1)]


def next_tokens(settings: Settings) -> Iterator[Batch]:
    """Each position is to predict the token after it."""
    for window_BT in windows(settings):
        yield Batch(window_BT[:, :-1], window_BT[:, 1:])


def cross_entropy(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """The mean over all targets that count."""
    return F.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten(), ignore_index=IGNORED)


def optimizer_of(parameters: Any, settings: Settings, rate: float) -> Optimizer:
    """The rule that was asked for, at that rate."""
    if settings.rule == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9)
    return torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)


def optimizer(model: nn.Module, settings: Settings) -> Optimizer:
    """Over all parameters."""
    return optimizer_of(model.parameters(), settings, settings.rate)


def schedule(optimizer: Optimizer, settings: Settings) -> LRScheduler:
    """A short warm-up, then as it is."""
    return LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / settings.warmup))


def clear(optimizer: Any) -> None:
    """Forget the gradients of the step before."""
    optimizer.zero_grad()


def backward(loss: Tensor) -> None:
    """Differentiate."""
    loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch


def before_update(model: nn.Module, optimizer: Any) -> None:
    """Clip what is far too long."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def update(optimizer: Any, closure: Closure = None) -> None:
    """One step of the optimizer."""
    optimizer.step(closure)
