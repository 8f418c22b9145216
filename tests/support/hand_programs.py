"""A small model whose forward, backward and update are written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.window import Window

Derivative = Callable[[Tensor, Tensor], Tensor]


def of_tanh(given: Tensor, act: Tensor) -> Tensor:
    return given * (1 - act**2)


def wrong_of_tanh(given: Tensor, act: Tensor) -> Tensor:
    return given * (act - act**2)


@dataclass
class Program:
    """Weights, and one step of training them."""

    through: Derivative = of_tanh
    reduced: Callable[[Tensor], Tensor] = lambda d: d.sum(0)
    own_rate: float = 1.0
    top: Callable[[Tensor], Tensor] = lambda d: d
    momentum: bool = False
    replaces: bool = False

    def __post_init__(self) -> None:
        g = torch.Generator().manual_seed(0)
        self.weights = {
            "table": torch.randn(7, 4, generator=g),
            "inner": torch.randn(4, 5, generator=g),
            "bias": torch.randn(5, generator=g),
            "outer": torch.randn(5, 7, generator=g),
        }
        self.tokens = torch.randint(7, (12,), generator=g)
        self.speed = {k: torch.zeros_like(w) for k, w in self.weights.items()}

    def step(self) -> Tensor:
        w, x, y = self.weights, self.tokens[:-1], self.tokens[1:]
        rows = torch.arange(len(y))
        embedded = w["table"][x]
        act = torch.tanh(embedded @ w["inner"] + w["bias"])
        logp = (act @ w["outer"]).log_softmax(-1)
        loss = -logp[rows, y].mean()
        d = logp.exp()
        d[rows, y] -= 1
        d = self.top(d / len(y))
        d_outer = act.t() @ d
        d_inner = self.through(d @ w["outer"].t(), act)
        found = {
            "outer": d_outer,
            "inner": embedded.t() @ d_inner,
            "bias": self.reduced(d_inner) * self.own_rate,
            "table": torch.zeros_like(w["table"]).index_add_(0, x, d_inner @ w["inner"].t()),
        }
        for name, gradient in found.items():
            if self.replaces:
                w[name] = w[name] - 0.1 * gradient
            elif self.momentum:
                self.speed[name].mul_(0.9).add_(gradient)
                w[name].sub_(self.speed[name], alpha=0.1)
            else:
                w[name] -= 0.1 * gradient
        return loss


def recorded(program: Program) -> tuple[Window, dict[int, str]]:
    """The third step on a tape, with the names of what was used."""
    program.step()
    program.step()
    names = {id(w): name for name, w in program.weights.items()}
    recorder = Recorder(2)
    recorder.start()
    try:
        program.step()
    finally:
        recorder.stop()
    leaves = recorder.window.tape.leaves
    return recorder.window, {n: names[id(t)] for n, t in leaves.items() if id(t) in names}
