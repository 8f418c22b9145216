"""Streams with a ring of old keys and values.  A slot knows when it was written; older slots weigh less (linear bias).
Two segments per update; the first few characters of a segment are read but not scored."""
import itertools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import talk

SEG, RING, STREAMS, SKIP = 16, 64, 20, 4


class RingAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.each = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.back = nn.Linear(width, width)
        self.register_buffer("slope", 2.0 ** -torch.arange(1, 2 * heads, 2.0))
        self.clear(STREAMS)

    def clear(self, streams):
        self.keys = torch.zeros(streams, RING, self.heads, self.each)
        self.values = torch.zeros_like(self.keys)
        self.written = torch.full((RING,), -1)
        self.now = 0

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, self.each).unbind(2)
        time = self.now + torch.arange(s)
        age = time[:, None] - torch.cat([self.written, time])[None, :]
        known = torch.cat([self.written >= 0, torch.ones(s, dtype=torch.bool)])
        bias = torch.where((age >= 0) & known, -self.slope[:, None, None] * age, -math.inf)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            torch.cat([self.keys, k], 1).transpose(1, 2),
            torch.cat([self.values, v], 1).transpose(1, 2),
            attn_mask=bias)
        with torch.no_grad():
            slot = time % RING
            self.keys[:, slot] = k
            self.values[:, slot] = v
            self.written[slot] = time
            self.now += s
        return self.back(y.transpose(1, 2).reshape(b, s, w))


class Reader(nn.Module):
    def __init__(self, vocab, width=64, heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.att = nn.ModuleList(RingAttention(width, heads) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 3 * width), nn.SiLU(), nn.Linear(3 * width, width)) for _ in range(depth))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * depth + 1))
        self.out = nn.Linear(width, vocab)

    def clear(self, streams):
        for a in self.att:
            a.clear(streams)

    def forward(self, ids):
        x = self.emb(ids)
        n = iter(self.norms)
        for a, m in zip(self.att, self.mlp):
            x = x + a(next(n)(x))
            x = x + m(next(n)(x))
        return self.out(next(n)(x))


def segments(text, gen):
    """endless (fresh, window); after 50 segments every stream jumps to another place"""
    while True:
        at = torch.randint(len(text) - 50 * SEG - 1, (STREAMS, 1), generator=gen)
        for i in range(50):
            yield i == 0, text[at + i * SEG + torch.arange(SEG + 1)]


def main(updates=450, rate=9e-3):
    torch.manual_seed(6)
    text = torch.tensor([talk.ALPHABET.index(c) for c in talk.story(5000, seed=33)])
    model = Reader(len(talk.ALPHABET))
    opt = torch.optim.NAdam(model.parameters(), lr=rate)
    feed = segments(text, torch.Generator().manual_seed(7))
    for u in range(updates):
        opt.param_groups[0]["lr"] = rate * min(1, (u + 1) / 30) * (1 - u / updates) ** 0.7
        seen = 0.0
        for fresh, win in itertools.islice(feed, 2):
            if fresh:
                model.clear(STREAMS)
            nats = F.cross_entropy(model(win[:, :-1])[:, SKIP:].mT, win[:, SKIP + 1 :], reduction="none")
            (nats.mean() / 2).backward()
            seen += nats.mean().item() / 2
        opt.step()
        for p in model.parameters():
            p.grad = None
        if u % 45 == 0 or u == updates - 1:
            print(f"update {u}: {seen:.3f} nats, {seen / math.log(2):.3f} bits")
    return model


if __name__ == "__main__":
    model = main()
