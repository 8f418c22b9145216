"""The network of the first three founding programs, as it was when they failed.

Its faults, all of them on purpose: the stack's backward begins every block from the first of two
activation buffers; the last norm's backward always reads the second; attention (beside, in
`hand_written_layers`) looks at the keys and values of one row and head; the causal mask is made and
not handed on. `repaired_stack` holds the right parts.

Shapes: B rows, T positions, C channels, V characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from lossleuth.labs.cases.hand_written_layers import (
    Attention,
    BlockWeights,
    block,
    block_backward,
    norm,
    norm_backward,
)

WEIGHTS = len(BlockWeights._fields)
# Standard deviations of new weights.
IN_TABLES, IN_BLOCKS, IN_HEAD = 0.1, 0.025, 0.06


class Buffers:
    """The memory that activations live in: two buffers, used in turn."""

    def __init__(self) -> None:
        self.pair = (torch.empty(0), torch.empty(0))

    def allocate(self, x_BTC: Tensor) -> None:
        """Make room for activations of this shape."""
        self.pair = (torch.zeros_like(x_BTC), torch.zeros_like(x_BTC))


class BlockStack(Function):
    """All blocks as one function, which keeps no activation: its backward makes them again."""

    @staticmethod
    def forward(
        ctx: Any, x_BTC: Tensor, buffers: Buffers, attention: Attention, *weights: Tensor
    ) -> Tensor:
        """Pass the activations from buffer to buffer."""
        ctx.buffers, ctx.attention = buffers, attention
        ctx.save_for_backward(*weights)
        buffers.allocate(x_BTC)
        buffers.pair[0].copy_(x_BTC)
        for number, of_block in enumerate(by_block(weights)):
            here, there = buffers.pair[number % 2], buffers.pair[(number + 1) % 2]
            there.copy_(block(here, of_block, attention))
        return buffers.pair[len(weights) // WEIGHTS % 2].clone()

    @staticmethod
    def backward(ctx: Any, given_BTC: Tensor) -> Any:  # noqa: D102
        inputs = [ctx.buffers.pair[0]] * (len(ctx.saved_tensors) // WEIGHTS)
        return through_blocks(ctx, inputs, given_BTC)


def through_blocks(ctx: Any, inputs: Sequence[Tensor], given_BTC: Tensor) -> tuple[Any, ...]:
    """Carry a gradient back through blocks that began from these inputs."""
    given: list[Tensor] = []
    for x_BTC, of_block in zip(
        reversed(inputs), reversed(by_block(ctx.saved_tensors)), strict=True
    ):
        given_BTC, of_weights = block_backward(x_BTC, of_block, ctx.attention, given_BTC)
        given = [*of_weights, *given]
    return given_BTC, None, None, *given


class LastNorm(Function):
    """The layer norm after the last block."""

    @staticmethod
    def forward(ctx: Any, x_BTC: Tensor, buffers: Buffers, gain: Tensor, bias: Tensor) -> Tensor:
        """Normalise what the stack left."""
        ctx.buffers = buffers
        ctx.save_for_backward(gain)
        return norm(x_BTC, gain, bias)

    @staticmethod
    def backward(ctx: Any, given_BTC: Tensor) -> Any:  # noqa: D102
        x_BTC = ctx.buffers.pair[1]
        (gain,) = ctx.saved_tensors
        given_x, (given_gain, given_bias) = norm_backward(x_BTC, gain, given_BTC)
        return given_x, None, given_gain, given_bias


class Parts(NamedTuple):
    """What a network is put together from."""

    stack: type[Function] = BlockStack
    norm: type[Function] = LastNorm
    attention: type[Attention] = Attention
    masked: bool = False


class Transformer(nn.Module):
    """A pre-norm transformer over characters."""

    def __init__(
        self,
        vocabulary: int,
        *,
        layers: int = 4,
        heads: int = 4,
        width: int = 128,
        context: int = 32,
        parts: Parts = Parts(),  # noqa: B008  # a tuple
    ) -> None:
        super().__init__()
        self.context, self.parts, self.activations = context, parts, Buffers()
        self.characters = nn.Parameter(drawn(vocabulary, width, IN_TABLES))
        self.positions = nn.Parameter(drawn(context, width, IN_TABLES))
        self.blocks = nn.ParameterList(tensor for _ in range(layers) for tensor in new_block(width))
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.head = nn.Parameter(drawn(vocabulary, width, IN_HEAD))
        mask_TT = torch.ones(context, context, dtype=torch.bool).triu(1)
        if parts.masked:
            self.attention = parts.attention(heads, mask_TT)
        else:
            self.attention = parts.attention(heads)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Scores of the character after each position."""
        x_BTC = F.embedding(tokens_BT, self.characters) + self.positions[: tokens_BT.shape[1]]
        stack: Any = self.parts.stack.apply
        x_BTC = stack(x_BTC, self.activations, self.attention, *self.blocks)
        last: Any = self.parts.norm.apply
        normed: Tensor = last(x_BTC, self.activations, self.gain, self.bias)
        return normed @ self.head.T


def by_block(weights: tuple[Tensor, ...]) -> list[BlockWeights]:
    """The tensors of all blocks, block by block."""
    return [
        BlockWeights(*weights[first : first + WEIGHTS]) for first in range(0, len(weights), WEIGHTS)
    ]


def drawn(rows: int, columns: int, deviation: float) -> Tensor:
    """A matrix of normal random numbers."""
    return torch.randn(rows, columns) * deviation


def new_block(width: int) -> BlockWeights:
    """The weights of a new block."""
    one, zero = torch.ones, torch.zeros
    return BlockWeights(
        *(one(width), zero(width)),
        *(drawn(3 * width, width, IN_BLOCKS), zero(3 * width)),
        *(drawn(width, width, IN_BLOCKS), zero(width)),
        *(one(width), zero(width)),
        *(drawn(2 * width, width, IN_BLOCKS), zero(2 * width)),
        *(drawn(width, 2 * width, IN_BLOCKS), zero(width)),
    )
