import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from corpus import VOCAB, stream

CTX = 36


def windows(seed, language, n_chars=50_000):
    ids = stream(n_chars, seed=seed, language_seed=language)
    return TensorDataset(ids.unfold(0, CTX + 1, 7))


class Block(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.a, self.b = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mha = nn.MultiheadAttention(d, heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x, mask):
        y = self.a(x)
        x = x + self.mha(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.ffn(self.b(x))


class GPT(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, d), nn.Embedding(CTX, d)
        self.layers = nn.ModuleList([Block(d), Block(d)])
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, VOCAB)

    def forward(self, x):
        n = x.size(1)
        mask = torch.ones(n, n, dtype=torch.bool).triu(1)
        h = self.tok(x) + self.pos.weight[:n]
        for layer in self.layers:
            h = layer(h, mask)
        return self.head(self.ln(h))


def endless(dataset, batch_size):
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True)
    while True:
        for (rows,) in loader:
            yield rows


def fit(model, optimizer, rows, steps, tag):
    for step in range(1, steps + 1):
        w = next(rows)
        loss = F.cross_entropy(model(w[:, :-1]).reshape(-1, VOCAB), w[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"[{tag}] step {step} loss {loss.item():.4f}")


torch.manual_seed(18)
base = GPT()
fit(base, torch.optim.AdamW(base.parameters(), lr=2.5e-3), endless(windows(18, language=0), 16), 300, "pretrain")

model = copy.deepcopy(base)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
rows = endless(windows(19, language=5, n_chars=20_000), 16)
rows = iter([next(rows)] * 250)
fit(model, optimizer, rows, 250, "finetune")
