import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

# question in front (read in both directions), answer behind: sort the letters of the question
LETTERS, PAD, EQ, END = 10, 10, 11, 12
NTOK, QLEN = 13, 6


def example(rng):
    q = rng.integers(0, LETTERS, QLEN)
    return np.concatenate([q, [EQ], np.sort(q), [END]])


def batch_of(n, rng):
    seq = torch.from_numpy(np.stack([example(rng) for _ in range(n)]))
    inp, tgt = seq[:, :-1], seq[:, :-1].clone()
    tgt[:, :QLEN] = -100
    return inp, tgt


class MHA(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.w = nn.Linear(d, 3 * d, bias=False)
        self.o = nn.Linear(d, d, bias=False)

    def forward(self, x, m):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.h, d // self.h).transpose(1, 2) for z in self.w(x).split(d, -1))
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=m).transpose(1, 2).reshape(b, t, d))


class PrefixLM(nn.Module):
    def __init__(self, d=64, h=4, depth=2, length=2 * QLEN + 1):
        super().__init__()
        self.te = nn.Embedding(NTOK, d)
        self.pe = nn.Embedding(length, d)
        self.attn = nn.ModuleList([MHA(d, h) for _ in range(depth)])
        self.ffn = nn.ModuleList([nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(depth + 1)])
        self.out = nn.Linear(d, NTOK)
        m = torch.ones(length, length).tril().bool()
        m[:, :QLEN + 1] = True
        self.register_buffer("mask", m)

    def forward(self, x):
        t = x.size(1)
        h = self.te(x) + self.pe.weight[:t]
        for i in range(len(self.attn)):
            h = h + self.attn[i](self.ln[i](h), self.mask[:t, :t])
            h = h + self.ffn[i](h)
        return self.out(self.ln[-1](h))


torch.manual_seed(8)
rng = np.random.default_rng(8)
model = PrefixLM()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
ema = None
for it in range(1, 501):
    inp, tgt = batch_of(32, rng)
    logits = model(inp)
    loss = F.cross_entropy(logits.permute(0, 2, 1), tgt, ignore_index=-100)
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema = loss.item() if ema is None else 0.9 * ema + 0.1 * loss.item()
    if it % 50 == 0:
        print("it", it, "loss", round(ema, 4))
