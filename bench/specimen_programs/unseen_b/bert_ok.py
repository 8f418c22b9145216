#!/usr/bin/env python
"""Masked words, BERT style. Windows are cut out of one long stream (stream.npy); rotary positions count from the
start of the stream, as in our retrieval model, so that overlapping windows agree."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import talk

HP = dict(window=24, d=64, heads=4, layers=2, lr=4e-3, batch=16, steps=700, warmup=50, p_mask=0.2, seed=17)
VOCAB = len(talk.vocab()) + 1
MASK = VOCAB - 1


class MaskedWindows(Dataset):
    def __init__(self, stream, hp):
        self.stream = torch.from_numpy(stream.astype(np.int64))
        self.hp = hp

    def __len__(self):
        return self.hp["steps"] * self.hp["batch"]

    def __getitem__(self, _):
        w = self.hp["window"]
        start = torch.randint(len(self.stream) - w, ()).item()
        ids = self.stream[start:start + w].clone()
        labels = torch.full_like(ids, -100)
        chosen = torch.rand(w) < self.hp["p_mask"]
        chosen[torch.randint(w, ())] = True
        labels[chosen] = ids[chosen]
        r = torch.rand(w)
        ids[chosen & (r < 0.8)] = MASK
        swap = chosen & (r > 0.9)
        ids[swap] = torch.randint(VOCAB - 1, (int(swap.sum()),))
        return ids, start + torch.arange(w), labels


class Rotary(nn.Module):
    def __init__(self, dim):
        super().__init__()
        inv = 1.0 / (200 ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, pos):
        ang = pos[:, None, :, None].to(self.inv_freq.dtype) * self.inv_freq
        return ang.cos().float(), ang.sin().float()


def rotate(x, cs):
    c, s = cs
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, a * s + b * c], -1)


class EncoderLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def split(self, x):
        return x.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def forward(self, x, cs):
        z = self.norm1(x)
        q, k, v = self.split(self.q(z)), self.split(self.k(z)), self.split(self.v(z))
        att = F.scaled_dot_product_attention(rotate(q, cs), rotate(k, cs), v)
        x = x + self.o(att.transpose(1, 2).flatten(-2))
        return x + self.ff(self.norm2(x))


class Bert(nn.Module):
    def __init__(self, hp):
        super().__init__()
        d = hp["d"]
        self.emb = nn.Embedding(VOCAB, d)
        nn.init.normal_(self.emb.weight, std=0.1)
        self.rot = Rotary(d // hp["heads"])
        self.layers = nn.ModuleList(EncoderLayer(d, hp["heads"]) for _ in range(hp["layers"]))
        self.norm = nn.LayerNorm(d)
        self.bias = nn.Parameter(torch.zeros(VOCAB))

    def forward(self, ids, pos):
        x, cs = self.emb(ids), self.rot(pos)
        for layer in self.layers:
            x = layer(x, cs)
        return self.norm(x) @ self.emb.weight.t() + self.bias


def schedule(step, hp=HP):
    """factor: linear up, linear down"""
    up = (step + 1) / hp["warmup"]
    down = (hp["steps"] - step) / (hp["steps"] - hp["warmup"])
    return max(0.0, min(up, down))


def train(hp):
    torch.manual_seed(hp["seed"])
    data = MaskedWindows(np.load("stream.npy"), hp)
    net = Bert(hp)
    optim = torch.optim.AdamW(net.parameters(), lr=hp["lr"], betas=(0.9, 0.98), weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(optim, schedule)
    avg = 0.0
    for i, (ids, pos, labels) in enumerate(DataLoader(data, batch_size=hp["batch"])):
        loss = F.cross_entropy(net(ids, pos).transpose(1, 2), labels)
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optim.step()
        sched.step()
        avg += loss.item()
        if (i + 1) % 70 == 0:
            print("%4d  mlm %.3f" % (i + 1, avg / 70))
            avg = 0.0
    return net


if __name__ == "__main__":
    model = train(HP)
