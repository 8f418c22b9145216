"""The parts of the hand-written network that were wrong, put right, one repair each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import Tensor
from torch.autograd import Function

from lossleuth.labs.cases.hand_written_layers import (
    Attention,
    block,
    norm,
    norm_backward,
)
from lossleuth.labs.cases.hand_written_stack import (
    BlockStack,
    Buffers,
    LastNorm,
    Parts,
    by_block,
    through_blocks,
)

REPAIRS = ("backward", "norm", "batch", "mask")


class KeptStack(Function):
    """Keeps the input of every block until its backward has used it."""

    @staticmethod
    def forward(
        ctx: Any, x_BTC: Tensor, buffers: Buffers, attention: Attention, *weights: Tensor
    ) -> Tensor:
        """Pass the activations on, and keep them."""
        ctx.attention, ctx.inputs = attention, []
        ctx.save_for_backward(*weights)
        # The norm behind may still read the buffers, if it has not been repaired.
        buffers.allocate(x_BTC)
        buffers.pair[0].copy_(x_BTC)
        for number, of_block in enumerate(by_block(weights)):
            ctx.inputs.append(x_BTC)
            x_BTC = block(x_BTC, of_block, attention)
            buffers.pair[(number + 1) % 2].copy_(x_BTC)
        return x_BTC

    @staticmethod
    def backward(ctx: Any, given_BTC: Tensor) -> Any:
        """Make each block again from its own input."""
        return through_blocks(ctx, ctx.inputs, given_BTC)


class KeptNorm(Function):
    """Keeps its own input."""

    @staticmethod
    def forward(ctx: Any, x_BTC: Tensor, buffers: Buffers, gain: Tensor, bias: Tensor) -> Tensor:
        """Normalise."""
        ctx.save_for_backward(x_BTC, gain)
        return norm(x_BTC, gain, bias)

    @staticmethod
    def backward(ctx: Any, given_BTC: Tensor) -> Any:
        """The gradient at that input."""
        x_BTC, gain = ctx.saved_tensors
        given_x, (given_gain, given_bias) = norm_backward(x_BTC, gain, given_BTC)
        return given_x, None, given_gain, given_bias


class BatchedAttention(Attention):
    """Every row and head has its own keys and values."""

    used = (slice(None), slice(None))


def parts(repaired: Collection[str]) -> Parts:
    """The parts of a network with these repairs made.

    >>> parts([]) == Parts(), parts(REPAIRS).masked
    (True, True)
    """
    return Parts(
        stack=KeptStack if "backward" in repaired else BlockStack,
        norm=KeptNorm if "norm" in repaired else LastNorm,
        attention=BatchedAttention if "batch" in repaired else Attention,
        masked="mask" in repaired,
    )
