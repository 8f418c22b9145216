"""What tests of the founding programs share: gradients of the hand-written network in float64."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.labs.cases.arguments import Arguments
from lossleuth.labs.cases.hand_written_layers import BlockWeights, norm
from lossleuth.labs.cases.hand_written_stack import Transformer, by_block
from lossleuth.labs.cases.repaired_stack import parts
from lossleuth.labs.cases.text import ALPHABET, SAMPLE, encode
from lossleuth.labs.cases.windows import Windows


def asked(steps: int, *repairs: str, seed: int = 0) -> Arguments:
    return Arguments(steps, seed, frozenset(repairs))


def network(repairs: Collection[str], layers: int = 4, seed: int = 0) -> Transformer:
    """In float64."""
    torch.manual_seed(seed)
    return Transformer(len(ALPHABET), layers=layers, parts=parts(repairs)).double()


def gradient(model: Transformer, scores: Tensor | None = None) -> Tensor:
    """Of the first batch's loss, all weights in one row."""
    inputs_BT, targets_BT = Windows(encode(SAMPLE)).batch(0)
    found = model(inputs_BT) if scores is None else scores
    loss = F.cross_entropy(found.flatten(0, 1), targets_BT.flatten())
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([g.flatten() for g in gradients])


def oracle_scores(model: Transformer, tokens_BT: Tensor) -> Tensor:
    """The same network, with every derivative taken by torch."""
    x_BTC = model.characters[tokens_BT] + model.positions[: tokens_BT.shape[1]]
    for of_block in by_block(tuple(model.blocks)):
        x_BTC = _block(x_BTC, of_block, model)
    return norm(x_BTC, model.gain, model.bias) @ model.head.T


def _block(x_BTC: Tensor, w: BlockWeights, model: Transformer) -> Tensor:
    attention = model.attention
    normed = F.layer_norm(x_BTC, x_BTC.shape[-1:], w.gain_1, w.bias_1)
    q, k, v = attention.split(F.linear(normed, w.qkv, w.qkv_bias))
    k, v = (x[attention.used].expand_as(q) for x in (k, v))
    seen = None if attention.mask_TT is None else ~attention.mask_TT
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    x_BTC = x_BTC + F.linear(mixed.transpose(1, 2).flatten(2), w.out, w.out_bias)
    normed = F.layer_norm(x_BTC, x_BTC.shape[-1:], w.gain_2, w.bias_2)
    return x_BTC + F.linear(F.linear(normed, w.up, w.up_bias).relu(), w.down, w.down_bias)


@dataclass(frozen=True)
class Comparison:
    error: float
    cosine: float


def compared(used: Tensor, true: Tensor) -> Comparison:
    size = used.norm() * true.norm()
    return Comparison(float((used - true).norm() / true.norm()), float(used @ true / size))


def gradient_truth(repairs: Collection[str], layers: int = 4, seed: int = 0) -> Comparison:
    """The program's gradient against torch's own of the same forward."""
    model = network(repairs, layers, seed)
    inputs_BT, _ = Windows(encode(SAMPLE)).batch(0)
    return compared(gradient(model), gradient(model, oracle_scores(model, inputs_BT)))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
