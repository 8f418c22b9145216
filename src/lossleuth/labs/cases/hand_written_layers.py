"""Layers of a transformer, forward and backward written by hand, for the founding programs.

Each backward takes what its forward took and the gradient of what that gave, and does the forward
again where it needs to.

Shapes: B rows, T positions, C channels, H heads, K channels of a head.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

EPSILON = 1e-5


class BlockWeights(NamedTuple):
    """The tensors of one block, in the order in which they are used."""

    gain_1: Tensor
    bias_1: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    out_bias: Tensor
    gain_2: Tensor
    bias_2: Tensor
    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor


def norm(x_BTC: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Layer norm over the channels."""
    centred = x_BTC - x_BTC.mean(-1, keepdim=True)
    return centred * (centred.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * gain + bias


def norm_backward(
    x_BTC: Tensor, gain: Tensor, given_BTC: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Gradients for the input, and for gain and bias."""
    centred = x_BTC - x_BTC.mean(-1, keepdim=True)
    inverse = (centred.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
    hat = centred * inverse
    scaled = given_BTC * gain
    along = (scaled * hat).mean(-1, keepdim=True)
    given_x = inverse * (scaled - scaled.mean(-1, keepdim=True) - hat * along)
    return given_x, ((given_BTC * hat).sum((0, 1)), given_BTC.sum((0, 1)))


def linear(x_BTC: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A matrix product and a bias."""
    return x_BTC @ weight.T + bias


def linear_backward(
    x_BTC: Tensor, weight: Tensor, given_BTD: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Gradients for the input, and for weight and bias."""
    given_weight = given_BTD.flatten(0, 1).T @ x_BTC.flatten(0, 1)
    return given_BTD @ weight, (given_weight, given_BTD.sum((0, 1)))


class Attention:
    """Softmax attention over the heads of a row."""

    # Rows and heads whose keys and values are looked at.
    used = (slice(1), slice(1))

    def __init__(self, heads: int, mask_TT: Tensor | None = None) -> None:
        self.heads = heads
        self.mask_TT = mask_TT

    def split(self, qkv: Tensor) -> list[Tensor]:
        """Queries, keys and values, head by head."""
        rows, length, _ = qkv.shape
        parts = qkv.view(rows, length, 3, self.heads, -1)
        return [part.transpose(1, 2) for part in parts.unbind(2)]

    def attend(self, q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor) -> tuple[Tensor, Tensor]:
        """How much each position looks at each, and what it takes from them."""
        keys, values = k_BHTK[self.used], v_BHTK[self.used]
        scores_BHTT = self.masked(q_BHTK @ keys.transpose(-2, -1) * q_BHTK.shape[-1] ** -0.5)
        weights_BHTT = scores_BHTT.softmax(-1)
        return weights_BHTT, (weights_BHTT @ values).transpose(1, 2).flatten(2)

    def masked(self, scores_BHTT: Tensor) -> Tensor:
        """The scores without those of later positions, where there is a mask."""
        if self.mask_TT is None:
            return scores_BHTT
        length = scores_BHTT.shape[-1]
        return scores_BHTT.masked_fill(self.mask_TT[:length, :length], -math.inf)

    def forward(self, qkv: Tensor) -> Tensor:
        """What each position takes from the others."""
        return self.attend(*self.split(qkv))[1]

    def backward(self, qkv: Tensor, given_BTC: Tensor) -> Tensor:
        """The gradient for queries, keys and values."""
        q_BHTK, k_BHTK, v_BHTK = self.split(qkv)
        weights_BHTT, _ = self.attend(q_BHTK, k_BHTK, v_BHTK)
        keys, values = (x_BHTK[self.used] for x_BHTK in (k_BHTK, v_BHTK))
        rows, length, _ = given_BTC.shape
        given_BHTK = given_BTC.view(rows, length, self.heads, -1).transpose(1, 2)
        given_weights = given_BHTK @ values.transpose(-2, -1)
        inner = (given_weights * weights_BHTT).sum(-1, keepdim=True)
        given_scores = weights_BHTT * (given_weights - inner) * q_BHTK.shape[-1] ** -0.5
        given = torch.zeros_like(qkv)
        given_q, given_k, given_v = self.split(given)
        given_q.copy_(given_scores @ keys)
        to_keys = (given_scores.transpose(-2, -1) @ q_BHTK).sum_to_size(keys.shape)
        given_k[self.used].copy_(to_keys)
        to_values = (weights_BHTT.transpose(-2, -1) @ given_BHTK).sum_to_size(values.shape)
        given_v[self.used].copy_(to_values)
        return given


def block(x_BTC: Tensor, w: BlockWeights, attention: Attention) -> Tensor:
    """One pre-norm block: attention and a layer of ReLUs, each added to its input."""
    mixed = attention.forward(linear(norm(x_BTC, w.gain_1, w.bias_1), w.qkv, w.qkv_bias))
    x_BTC = x_BTC + linear(mixed, w.out, w.out_bias)
    raised = linear(norm(x_BTC, w.gain_2, w.bias_2), w.up, w.up_bias).clamp(min=0)
    return x_BTC + linear(raised, w.down, w.down_bias)


def block_backward(
    x_BTC: Tensor, w: BlockWeights, attention: Attention, given_BTC: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Gradients for the block's input and its weights, in their order."""
    normed_1 = norm(x_BTC, w.gain_1, w.bias_1)
    qkv = linear(normed_1, w.qkv, w.qkv_bias)
    mixed = attention.forward(qkv)
    middle = x_BTC + linear(mixed, w.out, w.out_bias)
    normed_2 = norm(middle, w.gain_2, w.bias_2)
    raised = linear(normed_2, w.up, w.up_bias).clamp(min=0)

    given, of_down = linear_backward(raised, w.down, given_BTC)
    given, of_up = linear_backward(normed_2, w.up, given * (raised > 0))
    given, of_norm_2 = norm_backward(middle, w.gain_2, given)
    given_BTC = given_BTC + given
    given, of_out = linear_backward(mixed, w.out, given_BTC)
    given, of_qkv = linear_backward(normed_1, w.qkv, attention.backward(qkv, given))
    given, of_norm_1 = norm_backward(x_BTC, w.gain_1, given)
    return given_BTC + given, (*of_norm_1, *of_qkv, *of_out, *of_norm_2, *of_up, *of_down)
