"""A language model without a library, of the kind that is named, trained by a loop."""

import sys

import torch
from tiny import CONTEXT, VOCABULARY, WIDTH, batches, loss_of
from torch import nn
from torch.nn import functional as F


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layers = kind(WIDTH, WIDTH, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.layers(x)[0]


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, dilation=d) for d in (1, 2))

    def forward(self, x):
        h = x.transpose(1, 2)
        for layer in self.layers:
            # To the left only.
            h = h + F.silu(layer(F.pad(h, (2 * layer.dilation[0], 0))))
        return h.transpose(1, 2)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 48, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))
        return self.layers(x, mask=mask, is_causal=True)


class LinearAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.einsum("btk,btv->btkv", k, v).cumsum(1)
        size = torch.einsum("btk,btk->bt", q, k.cumsum(1))
        return x + torch.einsum("btk,btkv->btv", q, state) / size.unsqueeze(-1)


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        angles = torch.outer(torch.arange(CONTEXT), 100.0 ** (-torch.arange(WIDTH // 2) / 12))
        self.register_buffer("turn", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x):
        q, k, v = self.qkv(F.rms_norm(x, (WIDTH,))).chunk(3, -1)
        q, k = (self.turned(q), self.turned(k))
        scores = (q @ k.transpose(1, 2)) / WIDTH**0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return x + self.out(scores.masked_fill(later, float("-inf")).softmax(-1) @ v)

    def turned(self, x):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * self.turn[: x.size(1)]).flatten(-2)


class Gated(nn.Module):
    """Weights that are made anew of length and direction; a buffer that is filled in place."""

    def __init__(self):
        super().__init__()
        self.up = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, 2 * WIDTH))

    def forward(self, x):
        seen = torch.zeros_like(x)
        for t in range(x.size(1)):
            seen[:, t] = x[:, : t + 1].mean(1)
        a, b = self.up(seen).chunk(2, -1)
        return x + a * torch.sigmoid(b)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        flat = x.flatten(0, 1)
        share, chosen = self.router(flat).softmax(-1).topk(2, -1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            row, place = (chosen == number).nonzero(as_tuple=True)
            out.index_add_(0, row, share[row, place, None] * F.relu(expert(flat[row])))
        return x + out.view_as(x)


KINDS = {
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "convolution": Convolution,
    "encoder": Encoder,
    "linear_attention": LinearAttention,
    "rotary": Rotary,
    "gated": Gated,
    "experts": Experts,
}


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.tokens.weight, std=0.1)
        self.body = KINDS[kind]()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        return self.head(self.body(self.tokens(ids)))


torch.manual_seed(0)
model = Model(sys.argv[1])
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for inputs, targets in batches(6):
    loss = loss_of(model, inputs, targets)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    print(loss.item())
