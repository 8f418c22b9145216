"""A language model of a few thousand parameters, as users write them."""

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, CONTEXT, WIDTH = 32, 16, 24


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class TinyModel(nn.Module):
    def __init__(self, layers=2, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.size(1)))
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make_data(rows=64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, 4, (rows, CONTEXT + 1), generator=generator)
    return steps.cumsum(1) % VOCABULARY


def batches(steps, size=8, seed=0):
    data = make_data(seed=seed)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        chunk = data[torch.randint(0, len(data), (size,), generator=generator)]
        yield chunk[:, :-1], chunk[:, 1:]


def loss_of(model, inputs, targets):
    logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
