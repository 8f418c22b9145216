"""A word model whose loss is 9.2103 at every epoch (case 4).

Believed: cross-entropy is measured, but a squared error is differentiated. That is so, and not why:
every tensor is zero, because the initialisation returns at once, and of a network of zeros both
gradients are exactly 0. Repairs: init, loss.

    python constant_loss.py [--steps N] [--seed N] [--repaired | --repair NAME ...]

Shapes: B rows, T positions, C channels, V words, N = B·T.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lossleuth.labs.cases.arguments import Arguments, read_arguments
from lossleuth.labs.cases.hand_written_layers import linear, linear_backward, norm, norm_backward
from lossleuth.labs.cases.text import Language

LEARNING_RATE = 1e-3
SENTENCES, LENGTH, ROWS = 128, 17, 8
EPOCH = SENTENCES // ROWS
REPAIRS = ("init", "loss")


@dataclass(frozen=True)
class Settings:
    """The shape of the network, and how large its weights begin."""

    vocabulary: int = 10_000
    width: int = 64
    weight_scale: float | None = None


class Network(nn.Module):
    """Embedding, one hidden layer added to it, a norm, and a score for each word."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        words, width = settings.vocabulary, settings.width
        self.embedding = allocated(words, width)
        self.gain_1, self.bias_1 = allocated(width), allocated(width)
        self.up, self.up_bias = allocated(2 * width, width), allocated(2 * width)
        self.down, self.down_bias = allocated(width, 2 * width), allocated(width)
        self.gain_2, self.bias_2 = allocated(width), allocated(width)
        self.head = allocated(words, width)

    def initialise(self) -> None:
        """Draw the weights, and set the gains to one."""
        if not self.settings.weight_scale:
            return
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=self.settings.weight_scale)
            elif name.startswith("gain"):
                nn.init.ones_(parameter)

    def forward(self, tokens_BT: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of the word after each position, and what they are made of."""
        x_BTC = self.embedding[tokens_BT]
        normed = norm(x_BTC, self.gain_1, self.bias_1)
        raised = linear(normed, self.up, self.up_bias).clamp(min=0)
        x_BTC = x_BTC + linear(raised, self.down, self.down_bias)
        last_BTC = norm(x_BTC, self.gain_2, self.bias_2)
        return last_BTC @ self.head.T, last_BTC

    def assign_gradients(self, tokens_BT: Tensor, given_BTC: Tensor) -> None:
        """Carry the gradient of the last norm's output back to every weight below it."""
        first_BTC = self.embedding[tokens_BT]
        normed = norm(first_BTC, self.gain_1, self.bias_1)
        raised = linear(normed, self.up, self.up_bias).clamp(min=0)
        x_BTC = first_BTC + linear(raised, self.down, self.down_bias)
        given_BTC, (self.gain_2.grad, self.bias_2.grad) = norm_backward(
            x_BTC, self.gain_2, given_BTC
        )
        given, (self.down.grad, self.down_bias.grad) = linear_backward(raised, self.down, given_BTC)
        given, (self.up.grad, self.up_bias.grad) = linear_backward(
            normed, self.up, given * (raised > 0)
        )
        given, (self.gain_1.grad, self.bias_1.grad) = norm_backward(first_BTC, self.gain_1, given)
        given_NC = (given_BTC + given).flatten(0, 1)
        self.embedding.grad = torch.zeros_like(self.embedding)
        self.embedding.grad.index_add_(0, tokens_BT.flatten(), given_NC)


def allocated(*shape: int) -> nn.Parameter:
    """Room for a weight, to be initialised later."""
    return nn.Parameter(torch.zeros(*shape), requires_grad=False)


def cross_entropy(scores_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """The mean over all positions."""
    logarithms_BTV = scores_BTV.log_softmax(-1)
    return -logarithms_BTV.gather(-1, targets_BT[..., None]).mean()


def squared_error_gradient(network: Network, last_BTC: Tensor, targets_BT: Tensor) -> Tensor:
    """Of the mean squared distance between the output and the next word's embedding."""
    difference_BTC = last_BTC - network.embedding[targets_BT]
    return 2 * difference_BTC / targets_BT.numel()


def cross_entropy_gradient(network: Network, last_BTC: Tensor, targets_BT: Tensor) -> Tensor:
    """Of the cross-entropy; also assigns the head's."""
    delta_NV = (last_BTC @ network.head.T).softmax(-1).flatten(0, 1)
    delta_NV[torch.arange(len(delta_NV)), targets_BT.flatten()] -= 1
    delta_NV /= len(delta_NV)
    network.head.grad = delta_NV.T @ last_BTC.flatten(0, 1)
    return (delta_NV @ network.head).view_as(last_BTC)


def train(arguments: Arguments) -> tuple[Network, list[float]]:
    """Train on made-up sentences; the network, and the loss of each step."""
    torch.manual_seed(arguments.seed)
    sentences = Language.made(Settings.vocabulary, 16).sentences(SENTENCES, LENGTH)
    scale = 0.05 if "init" in arguments.repaired else None
    network = Network(Settings(weight_scale=scale))
    network.initialise()
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    gradient = cross_entropy_gradient if "loss" in arguments.repaired else squared_error_gradient
    losses: list[float] = []
    for step in range(arguments.steps):
        at = step % EPOCH * ROWS
        tokens_BT, targets_BT = sentences[at : at + ROWS, :-1], sentences[at : at + ROWS, 1:]
        scores_BTV, last_BTC = network(tokens_BT)
        loss = cross_entropy(scores_BTV, targets_BT)
        network.assign_gradients(tokens_BT, gradient(network, last_BTC, targets_BT))
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % EPOCH == 0:
            mean = sum(losses[-EPOCH:]) / EPOCH
            print(f"epoch {(step + 1) // EPOCH:3}  loss {mean:.4f}  lr {LEARNING_RATE:.1e}")
    return network, losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(read_arguments(__doc__ or "", REPAIRS, steps=200))
