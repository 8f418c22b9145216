"""Prefix language model: the first words of a window are read in both directions, the others are written left to right."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    data: str = "stories.bin"
    vocab: int = 117
    length: int = 48
    prefix: int = 12
    batch: int = 16
    steps: int = 640
    width: int = 64
    heads: int = 4
    depth: int = 2
    lr: float = 4e-3


cfg = Config()
torch.manual_seed(101)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln = nn.LayerNorm(cfg.width)
        self.inp = nn.Linear(cfg.width, 3 * cfg.width + 2 * cfg.width)
        self.out = nn.Linear(cfg.width + 2 * cfg.width, cfg.width)

    def forward(self, x, bias):
        """attention and feed-forward side by side, as in GPT-J"""
        B, T, D = x.shape
        q, k, v, f = self.inp(self.ln(x)).split([D, D, D, 2 * D], dim=-1)
        q, k, v = (t.reshape(B, T, cfg.heads, -1).transpose(1, 2) for t in (q, k, v))
        w = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + bias, dim=-1)
        a = (w @ v).transpose(1, 2).reshape(B, T, D)
        return x + self.out(torch.cat([a, F.gelu(f)], dim=-1))


class PrefixLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(cfg.vocab, cfg.width)
        self.wpe = nn.Embedding(cfg.length, cfg.width)
        self.blocks = nn.ModuleList([Block() for _ in range(cfg.depth)])
        self.ln = nn.LayerNorm(cfg.width)
        nn.init.normal_(self.wte.weight, std=0.05)
        nn.init.normal_(self.wpe.weight, std=0.05)
        bias = torch.full((cfg.length, cfg.length), float("-inf")).triu(1)
        bias[:cfg.prefix, :cfg.prefix] = 0.0
        self.register_buffer("bias", bias)

    def forward(self, idx):
        T = idx.shape[1]
        x = self.wte(idx) + self.wpe.weight[:T]
        for block in self.blocks:
            x = block(x, self.bias[:T, :T])
        return self.ln(x) @ self.wte.weight.T


def loss_of(model, idx, target):
    target = target.clone()
    target[:, :cfg.prefix - 1] = -1
    logits = model(idx)
    return F.cross_entropy(logits.permute(0, 2, 1), target, ignore_index=-1)


tokens = np.fromfile(cfg.data, dtype=np.uint16).reshape(2, -1)[0].astype(np.int64)
tokens = torch.from_numpy(tokens)
cut = int(0.95 * len(tokens))
train, held = tokens[:cut], tokens[cut:]


def draw(source, n):
    start = torch.randint(0, len(source) - cfg.length - 1, (n,))
    rows = torch.stack([source[s:s + cfg.length + 1] for s in start.tolist()])
    return rows[:, :-1], rows[:, 1:]


model = PrefixLM()
optim = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.SequentialLR(optim, [
    torch.optim.lr_scheduler.LinearLR(optim, 0.05, 1.0, 40),
    torch.optim.lr_scheduler.CosineAnnealingLR(optim, cfg.steps - 40, cfg.lr / 20),
], milestones=[40])

for step in range(1, cfg.steps + 1):
    loss = loss_of(model, *draw(train, cfg.batch))
    loss.backward()
    optim.step()
    schedule.step()
    model.zero_grad()
    if step % 70 == 0 or step == 1:
        with torch.no_grad():
            print(f"{step}: train {loss.item():.3f}, held out {loss_of(model, *draw(held, 32)).item():.3f}")
