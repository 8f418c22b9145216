"""The reference language model: a decoder-only transformer that is meant to be read.

Tensor names carry their shape, one letter per axis:

    B  batch        T  position        V  vocabulary
    D  model width  H  head            K  width of one head     F  feed-forward width
    C  context      P  pair of channels that turn together
    E  queries and keys side by side, 2D wide, in G = 2H heads

`oracle.py` is the same network in numpy float64 with its backward pass written by hand;
the two are kept equal by a test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

INIT_STD = 0.02
ROTARY_BASE = 10_000.0


@dataclass(frozen=True)
class ModelShape:
    """Everything that decides which tensors a model has and how they are joined.

    >>> ModelShape(vocabulary=34, context=32, layers=2, heads=2, width=16).head_width
    8
    """

    vocabulary: int
    context: int
    layers: int
    heads: int
    width: int
    positions: str = "learned"
    tied: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.positions not in ("learned", "rotary"):
            raise ValueError(f"positions are learned or rotary, not {self.positions!r}")
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a width of {self.width}")
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(f"rotary positions need an even head width, not {self.head_width}")

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads


@dataclass
class KeyValueCache:
    """Keys and values of the positions already seen, one pair per block."""

    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    @property
    def length(self) -> int:
        """How many positions the cache holds."""
        return self.keys[0].size(2) if self.keys else 0

    def extend(self, layer: int, k_BHTK: Tensor, v_BHTK: Tensor) -> tuple[Tensor, Tensor]:
        """Append new positions of one block and return all of its keys and values."""
        if layer == len(self.keys):
            self.keys.append(k_BHTK)
            self.values.append(v_BHTK)
        else:
            self.keys[layer] = torch.cat((self.keys[layer], k_BHTK), dim=2)
            self.values[layer] = torch.cat((self.values[layer], v_BHTK), dim=2)
        return self.keys[layer], self.values[layer]


class Attention(nn.Module):
    """Causal self-attention over all rows and heads at once."""

    def __init__(self, shape: ModelShape, layer: int) -> None:
        super().__init__()
        self.shape = shape
        self.layer = layer
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(
        self, x_BTD: Tensor, rotation_T2P: Tensor | None, cache: KeyValueCache | None
    ) -> Tensor:
        """Mix each position with those before it."""
        B, T, D = x_BTD.shape
        heads = (B, T, self.shape.heads, self.shape.head_width)
        qk_BTE, v_BTD = self.qkv(x_BTD).split((2 * D, D), dim=2)
        qk_BTGK = qk_BTE.view(B, T, 2 * self.shape.heads, self.shape.head_width)
        if rotation_T2P is not None:
            qk_BTGK = rotate(qk_BTGK, rotation_T2P)
            # A view would keep the unturned queries and keys alive until the backward pass.
            v_BTD = v_BTD.contiguous()
        q_BHTK, k_BHTK = qk_BTGK.transpose(1, 2).chunk(2, dim=1)
        v_BHTK = v_BTD.view(heads).transpose(1, 2)
        if cache is not None:
            k_BHTK, v_BHTK = cache.extend(self.layer, k_BHTK, v_BHTK)
        seen = k_BHTK.size(2) - T
        y_BHTK = F.scaled_dot_product_attention(
            q_BHTK,
            k_BHTK,
            v_BHTK,
            attn_mask=_causal_mask(T, seen, x_BTD.device) if seen else None,
            is_causal=not seen,
            dropout_p=self.shape.dropout if self.training else 0.0,
        )
        y_BTD: Tensor = self.out(y_BHTK.transpose(1, 2).reshape(B, T, D))
        return y_BTD


class Block(nn.Module):
    """Pre-norm transformer block: each half adds to the stream it reads."""

    def __init__(self, shape: ModelShape, layer: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width)
        self.attention = Attention(shape, layer)
        self.feed_norm = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self, x_BTD: Tensor, rotation_T2P: Tensor | None, cache: KeyValueCache | None
    ) -> Tensor:
        """Attention, then the feed-forward layer."""
        a_BTD = self.attention(self.attention_norm(x_BTD), rotation_T2P, cache)
        x_BTD = x_BTD + self.dropout(a_BTD)
        h_BTF = F.gelu(self.up(self.feed_norm(x_BTD)), approximate="tanh")
        y_BTD: Tensor = x_BTD + self.dropout(self.down(h_BTF))
        return y_BTD


class LanguageModel(nn.Module):
    """Tokens in, one row of logits per position out.

    >>> model = LanguageModel(ModelShape(vocabulary=10, context=8, layers=1, heads=2, width=16))
    >>> tuple(model(torch.zeros(3, 8, dtype=torch.long)).shape)
    (3, 8, 10)
    """

    rotation_C2P: Tensor | None

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        learned = shape.positions == "learned"
        self.position = nn.Embedding(shape.context, shape.width) if learned else None
        self.dropout = nn.Dropout(shape.dropout)
        self.blocks = nn.ModuleList(Block(shape, layer) for layer in range(shape.layers))
        self.final_norm = nn.LayerNorm(shape.width)
        self.output = nn.Linear(shape.width, shape.vocabulary, bias=False)
        if shape.tied:
            self.output.weight = self.embedding.weight
        rotation = None if learned else rotations(shape.context, shape.head_width)
        self.register_buffer("rotation_C2P", rotation, persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        """Normal weights, zero biases; what is added to the stream shrinks with depth.

        Every block adds two terms to the stream, so dividing those by sqrt(2 * layers) keeps
        the stream's variance at the start independent of depth, and the first loss near ln V.
        """
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                adds_to_stream = name.endswith(("attention.out.weight", "down.weight"))
                scale = math.sqrt(2 * self.shape.layers) if adds_to_stream else 1.0
                nn.init.normal_(parameter, std=INIT_STD / scale)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens_BT: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """Logits for every position; with a cache, `tokens_BT` continue what it holds."""
        seen = cache.length if cache is not None else 0
        T = tokens_BT.size(1)
        if seen + T > self.shape.context:
            raise ValueError(f"{seen + T} positions do not fit a context of {self.shape.context}")
        x_BTD = self.embedding(tokens_BT)
        if self.position is not None:
            x_BTD = x_BTD + self.position.weight[seen : seen + T]
        rotation_T2P = None if self.rotation_C2P is None else self.rotation_C2P[seen : seen + T]
        x_BTD = self.dropout(x_BTD)
        for block in self.blocks:
            x_BTD = block(x_BTD, rotation_T2P, cache)
        logits_BTV: Tensor = self.output(self.final_norm(x_BTD))
        return logits_BTV


def rotations(context: int, head_width: int) -> Tensor:
    """Cosines and sines of every position and pair of channels, in float64.

    >>> tuple(rotations(context=8, head_width=4).shape)
    (8, 2, 2)
    """
    pairs = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    angles = torch.outer(torch.arange(context, dtype=torch.float64), ROTARY_BASE**-pairs)
    return torch.stack((angles.cos(), angles.sin()), dim=1)


def rotate(x_BTHK: Tensor, rotation_T2P: Tensor) -> Tensor:
    """Turn each pair of channels (k, k + K/2) by its position's angle.

    >>> x = torch.randn(1, 3, 1, 4)
    >>> bool(torch.allclose(rotate(x, rotations(3, 4)).norm(dim=-1), x.norm(dim=-1)))
    True
    """
    cos_TP, sin_TP = rotation_T2P.to(x_BTHK.dtype).unbind(dim=1)
    cos_T1K = torch.cat((cos_TP, cos_TP), dim=-1).unsqueeze(1)
    sin_T1K = torch.cat((-sin_TP, sin_TP), dim=-1).unsqueeze(1)
    partner_BTHK = x_BTHK.roll(x_BTHK.size(-1) // 2, dims=-1)
    return torch.addcmul(x_BTHK * cos_T1K, partner_BTHK, sin_T1K)


def _causal_mask(T: int, seen: int, device: torch.device) -> Tensor:
    """True where a new position may look: at everything before it and at itself."""
    return torch.ones(T, seen + T, dtype=torch.bool, device=device).tril(seen)
