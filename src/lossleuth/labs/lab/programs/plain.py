"""A transformer of our own, trained by a loop of our own.

    python plain.py [--steps N] [--seed N] [--rule adamw|sgd] [--fault ID [--dose X]]

Shapes: B rows, T positions, C channels, H heads, K channels of a head, V tokens.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.labs.lab.programs import training_parts as ordinary
from lossleuth.labs.lab.programs.planting import asked
from lossleuth.labs.lab.programs.training_parts import Parts, Settings


def attend(q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> Tensor:
    """Each position looks back."""
    return F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, is_causal=True)


class Block(nn.Module):
    """Attention, then a hidden layer, each added to what came in."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        width = settings.width
        self.heads = settings.heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.attend = attend

    def forward(self, x_BTC: Tensor) -> Tensor:
        """One layer."""
        qkv = self.qkv(self.norm_1(x_BTC)).unflatten(-1, (3, self.heads, -1))
        q_BHTK, k_BHTK, v_BHTK = qkv.permute(2, 0, 3, 1, 4)
        mixed_BTC = self.attend(q_BHTK, k_BHTK, v_BHTK).transpose(1, 2).flatten(2)
        x_BTC = x_BTC + cast(Tensor, self.out(mixed_BTC))
        return x_BTC + cast(Tensor, self.down(F.gelu(self.up(self.norm_2(x_BTC)))))


class Model(nn.Module):
    """Tokens in, scores of the next token out."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.tokens = nn.Embedding(settings.text.vocabulary, settings.width)
        self.positions = nn.Embedding(settings.length, settings.width)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.layers))
        self.norm = nn.LayerNorm(settings.width)
        self.head = nn.Linear(settings.width, settings.text.vocabulary, bias=False)

    def embed(self, tokens_BT: Tensor) -> Tensor:
        """What each token is, and where."""
        places_T = torch.arange(tokens_BT.shape[1])
        return cast(Tensor, self.tokens(tokens_BT) + self.positions(places_T))

    def decode(self, x_BTC: Tensor) -> Tensor:
        """From there to the scores."""
        for block in self.blocks:
            x_BTC = block(x_BTC)
        return cast(Tensor, self.head(self.norm(x_BTC)))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """All of it."""
        return self.decode(self.embed(tokens_BT))


def healthy(settings: Settings | None = None) -> Parts:
    """The parts of this host without a fault."""
    return Parts(
        host="plain",
        settings=settings or Settings(),
        model=Model,
        forward=lambda model, tokens_BT: model(tokens_BT),
        embed=Model.embed,
        decode=Model.decode,
        stack=lambda model: (model, "blocks"),
        attend=attend,
        batches=ordinary.next_tokens,
        loss=ordinary.cross_entropy,
        optimizer=ordinary.optimizer,
        schedule=ordinary.schedule,
        clear=ordinary.clear,
        backward=ordinary.backward,
        before_update=ordinary.before_update,
        update=ordinary.update,
    )


def made(parts: Parts) -> nn.Module:
    """The model, attending as the parts say."""
    model = parts.model(parts.settings)
    for module in model.modules():
        if isinstance(module, Block):
            module.attend = parts.attend
    return model


def train(parts: Parts) -> list[float]:
    """Train, and say how it goes; the loss of each step."""
    settings = parts.settings
    torch.manual_seed(settings.seed)
    batches = parts.batches(settings)
    model = made(parts)
    optimizer = parts.optimizer(model, settings)
    schedule = parts.schedule(optimizer, settings)
    losses = []
    for step in range(settings.steps):
        parts.clear(optimizer)
        for _ in range(parts.micro_batches):
            inputs_BT, targets_BT = next(batches)
            loss = parts.loss(parts.forward(model, inputs_BT), targets_BT)
            parts.backward(loss / parts.micro_batches)
        parts.before_update(model, optimizer)
        parts.update(optimizer, None)
        schedule.step()
        losses.append(loss.item())
        if (step + 1) % 20 == 0:
            print(f"step {step + 1:4}  loss {losses[-1]:.4f}", flush=True)
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(asked(healthy(), __doc__ or ""))
