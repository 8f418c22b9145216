"""Small recorded steps for the tests of tape and probes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.window import Window

VOCABULARY = 23
WIDTH = 16


class SmallModel(nn.Module):
    """A causal attention layer and a feed-forward layer, with places to plant faults in."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(32, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.causal = True
        self.mixes_rows = False
        self.activation: Callable[[Tensor], Tensor] = F.gelu
        self.between: Callable[[Tensor], Tensor] = lambda x: x

    def forward(self, x: Tensor) -> Tensor:
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        q, k, v = self.qkv(self.norm(h)).chunk(3, -1)
        h = h + F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        if self.mixes_rows:
            h = h + 0.1 * h.mean(0, keepdim=True)
        h = self.between(h)
        h = h + self.down(self.activation(self.up(h)))
        return self.head(h)


class InNumpy(torch.autograd.Function):
    """A tanh that leaves torch, with a right backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        out.detach().numpy()[...] = np.tanh(x.detach().numpy())
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        return gradient * (1 - out * out)


def batch(rows: int = 3, length: int = 9) -> Tensor:
    """Tokens that do not repeat within a row."""
    generator = torch.Generator().manual_seed(1)
    rows_ = [torch.randperm(VOCABULARY, generator=generator)[:length] for _ in range(rows)]
    return torch.stack(rows_)


def shifted_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """The usual loss."""
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def recorded_step(
    loss_of: Callable[[nn.Module, Tensor], Tensor] = shifted_loss,
    change: Callable[[SmallModel], None] | None = None,
    make_optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
    seed: int = 0,
) -> Window:
    """Record the second step of a small training."""
    torch.manual_seed(seed)
    model = SmallModel()
    if change is not None:
        change(model)
    make = make_optimizer or (lambda p: torch.optim.AdamW(p, lr=1e-3))
    optimizer = make(model.parameters())
    recorder = Recorder(1)
    for step in range(2):
        if step:
            recorder.start()
        try:
            loss = loss_of(model, batch())
            optimizer.zero_grad()
            if step:
                run = recorder.begin_backward([loss], [None])
                loss.backward()
                recorder.end_backward(run)
                recorder.before_update(optimizer)
                optimizer.step()
                recorder.after_update(optimizer)
            else:
                loss.backward()
                optimizer.step()
        finally:
            recorder.stop()
    for name, parameter in model.named_parameters():
        number = recorder.capture.known(parameter)
        if number is not None:
            recorder.window.names[number] = name
    # After an update a parameter is met as a new tensor; its old number is the one recorded.
    by_identity = {id(p): name for name, p in model.named_parameters()}
    for number, leaf in recorder.window.tape.leaves.items():
        if id(leaf) in by_identity:
            recorder.window.names[number] = by_identity[id(leaf)]
    return recorder.window


def step_model(window: Window) -> SmallModel:
    """The model in float64, with the weights that the recorded step began with."""
    model = SmallModel().double()
    with torch.no_grad():
        for parameter, before in zip(model.parameters(), window.updates[0].before, strict=True):
            parameter.copy_(before.double())
    return model


def scores_of(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    return model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
