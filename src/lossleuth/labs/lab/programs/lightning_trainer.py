"""A LightningModule around torch's own attention, trained by Lightning's Trainer.

    python lightning_trainer.py [--steps N] [--seed N] [--rule adamw|sgd] [--fault ID [--dose X]]

Shapes: B rows, T positions, C channels, V tokens.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from lossleuth.labs.lab.programs import training_parts as ordinary
from lossleuth.labs.lab.programs.planting import asked
from lossleuth.labs.lab.programs.training_parts import Batch, Parts, Settings


def attend(attention: nn.MultiheadAttention, x_BTC: Tensor) -> Tensor:
    """Each position looks back."""
    later_TT = torch.ones(x_BTC.shape[1], x_BTC.shape[1], dtype=torch.bool).triu(1)
    mixed_BTC, _ = attention(x_BTC, x_BTC, x_BTC, attn_mask=later_TT, need_weights=False)
    return cast(Tensor, mixed_BTC)


class Layer(nn.Module):
    """Attention, then a hidden layer, each added to what came in."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        width = settings.width
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, settings.heads, batch_first=True)
        hidden = nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        self.hidden = nn.Sequential(*hidden)
        self.attend = attend

    def forward(self, x_BTC: Tensor) -> Tensor:
        """One layer."""
        x_BTC = x_BTC + self.attend(self.attention, self.norm_1(x_BTC))
        return x_BTC + cast(Tensor, self.hidden(self.norm_2(x_BTC)))


class Network(nn.Module):
    """Tokens in, scores of the next token out."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.tokens = nn.Embedding(settings.text.vocabulary, settings.width)
        self.positions = nn.Parameter(0.1 * torch.randn(settings.length, settings.width))
        self.layers = nn.ModuleList(Layer(settings) for _ in range(settings.layers))
        self.norm = nn.LayerNorm(settings.width)
        self.head = nn.Linear(settings.width, settings.text.vocabulary, bias=False)

    def embed(self, tokens_BT: Tensor) -> Tensor:
        """What each token is, and where."""
        return cast(Tensor, self.tokens(tokens_BT)) + self.positions[: tokens_BT.shape[1]]

    def decode(self, x_BTC: Tensor) -> Tensor:
        """From there to the scores."""
        for layer in self.layers:
            x_BTC = layer(x_BTC)
        return cast(Tensor, self.head(self.norm(x_BTC)))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """All of it."""
        return self.decode(self.embed(tokens_BT))


class Windows(IterableDataset[Batch]):
    """The batches of one run."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[Batch]:
        number = self._parts.settings.steps * self._parts.micro_batches
        return islice(self._parts.batches(self._parts.settings), number)


class Training(lightning.LightningModule):
    """What Lightning asks for."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self._parts = parts
        self.network = made(parts)
        self.losses: list[float] = []

    def training_step(self, batch: Any, index: int) -> Tensor:
        """The loss of a batch."""
        inputs_BT, targets_BT = batch
        loss = self._parts.loss(self._parts.forward(self.network, inputs_BT), targets_BT)
        self.losses.append(loss.item())
        if len(self.losses) % 20 == 0:
            print(f"step {len(self.losses):4}  loss {self.losses[-1]:.4f}", flush=True)
        return loss

    def configure_optimizers(self) -> Any:
        """The optimizer, and its rate step by step."""
        optimizer = self._parts.optimizer(self.network, self._parts.settings)
        schedule = self._parts.schedule(optimizer, self._parts.settings)
        scheduler = {"scheduler": schedule, "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": scheduler}

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Any) -> None:
        """Before the backward pass."""
        self._parts.clear(optimizer)

    def backward(self, loss: Tensor, *_: Any, **__: Any) -> None:
        """The backward pass."""
        self._parts.backward(loss)

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        """After the backward pass."""
        self._parts.before_update(self.network, optimizer)

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None
    ) -> None:
        """The update; the closure makes the training step and the backward pass."""
        self._parts.update(optimizer, optimizer_closure)


def healthy(settings: Settings | None = None) -> Parts:
    """The parts of this host without a fault."""
    return Parts(
        host="lightning_trainer",
        settings=settings or Settings(),
        model=Network,
        forward=lambda model, tokens_BT: model(tokens_BT),
        embed=Network.embed,
        decode=Network.decode,
        stack=lambda model: (model, "layers"),
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
    """The network, attending as the parts say."""
    network = parts.model(parts.settings)
    for module in network.modules():
        if isinstance(module, Layer):
            module.attend = parts.attend
    return network


def train(parts: Parts) -> list[float]:
    """Train, and say how it goes; the loss of each batch."""
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(parts.settings.seed)
    training = Training(parts)
    trainer = lightning.Trainer(
        max_epochs=1,
        accumulate_grad_batches=parts.micro_batches,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(training, DataLoader(Windows(parts), batch_size=None))
    return training.losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(asked(healthy(), __doc__ or ""))
