"""Small decoder-only transformer (rotary positions, grouped-query attention) on token ids from a .bin file."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="stories.bin")
    p.add_argument("--vocab", type=int, default=128)
    p.add_argument("--block", type=int, default=48)
    p.add_argument("--batch", type=int, default=8, help="rows per micro batch")
    p.add_argument("--accum", type=int, default=2)
    p.add_argument("--steps", type=int, default=450)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--kv-heads", type=int, default=2)
    p.add_argument("--window", type=int, default=32, help="how far a place may look")
    p.add_argument("--lr", type=float, default=6e-3)
    p.add_argument("--warmup", type=int, default=30)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def rotary_tables(dim, length, base=10000.0):
    freq = base ** (-torch.arange(0, dim, 2).float() / dim)
    angle = torch.arange(length).float()[:, None] * freq[None]
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.scale * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.h, self.kv, self.d = a.heads, a.kv_heads, a.dim // a.heads
        self.q = nn.Linear(a.dim, self.h * self.d, bias=False)
        self.k = nn.Linear(a.dim, self.kv * self.d, bias=False)
        self.v = nn.Linear(a.dim, self.kv * self.d, bias=False)
        self.o = nn.Linear(a.dim, a.dim, bias=False)
        cos, sin = rotary_tables(self.d, a.block)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        i = torch.arange(a.block)
        gap = i[:, None] - i[None, :]
        self.register_buffer("near", gap.abs() < a.window, persistent=False)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.h, self.d).transpose(1, 2)
        k = self.k(x).view(B, T, self.kv, self.d).transpose(1, 2)
        v = self.v(x).view(B, T, self.kv, self.d).transpose(1, 2)
        q = rotate(q, self.cos[:T], self.sin[:T])
        k = rotate(k, self.cos[:T], self.sin[:T])
        k = k.repeat_interleave(self.h // self.kv, dim=1)
        v = v.repeat_interleave(self.h // self.kv, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.near[:T, :T])
        return self.o(y.transpose(1, 2).reshape(B, T, -1))


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.n1, self.n2 = RMSNorm(a.dim), RMSNorm(a.dim)
        self.attn = Attention(a)
        self.up = nn.Linear(a.dim, 4 * a.dim, bias=False)
        self.down = nn.Linear(2 * a.dim, a.dim, bias=False)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        g, u = self.up(self.n2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(g) * u)


class Decoder(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tok = nn.Embedding(a.vocab, a.dim)
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = RMSNorm(a.dim)
        self.out = nn.Linear(a.dim, a.vocab, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.05)

    def forward(self, ids):
        x = self.tok(ids)
        for b in self.blocks:
            x = b(x)
        return self.out(self.norm(x))


class Stepper:
    """gradient accumulation, clipping, warm-up + cosine"""

    def __init__(self, model, a):
        self.a, self.params = a, list(model.parameters())
        self.opt = torch.optim.AdamW(self.params, lr=a.lr, betas=(0.9, 0.98), weight_decay=0.01)
        self.done = 0

    def rate(self):
        if self.done < self.a.warmup:
            return self.a.lr * (self.done + 1) / self.a.warmup
        t = (self.done - self.a.warmup) / (self.a.steps - self.a.warmup)
        return self.a.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * t)))

    def step(self):
        for group in self.opt.param_groups:
            group["lr"] = self.rate()
        norm = nn.utils.clip_grad_norm_(self.params, 1.0)
        self.opt.step()
        self.opt.zero_grad()
        self.done += 1
        return norm


def main():
    a = get_args()
    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)
    data = np.memmap(a.data, dtype=np.uint16, mode="r").reshape(2, -1)

    def batch():
        at = rng.integers(0, data.shape[1] - a.block, a.batch)
        x, y = (np.stack([row[i:i + a.block] for i in at]).astype(np.int64) for row in data)
        return torch.from_numpy(x), torch.from_numpy(y)

    model = Decoder(a)
    stepper = Stepper(model, a)
    print("parameters:", sum(p.numel() for p in model.parameters()))
    for step in range(a.steps):
        total = 0.0
        for _ in range(a.accum):
            x, y = batch()
            loss = F.cross_entropy(model(x).view(-1, a.vocab), y.view(-1)) / a.accum
            loss.backward()
            total += loss.item()
        norm = stepper.step()
        if step % 50 == 0 or step == a.steps - 1:
            print(f"step {step} loss {total:.3f} norm {norm:.2f} lr {stepper.rate():.2e}")
    return model


if __name__ == "__main__":
    main()
