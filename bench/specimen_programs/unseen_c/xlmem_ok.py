"""Character model that reads long streams in short segments and keeps the states of what came before
(after Dai et al. 2019, with one learned bias per distance instead of the sinusoids)."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from talk import ALPHABET, story


@dataclass
class Cfg:
    width: int = 64
    heads: int = 4
    layers: int = 2
    segment: int = 24
    memory: int = 24
    streams: int = 16
    chapter: int = 60        # segments until the streams start elsewhere
    chapters: int = 10
    lr: float = 8e-3


class Layer(nn.Module):
    def __init__(self, c: Cfg):
        super().__init__()
        self.c = c
        self.ln_a, self.ln_b = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.q = nn.Linear(c.width, c.width)
        self.kv = nn.Linear(c.width, 2 * c.width)
        self.o = nn.Linear(c.width, c.width)
        self.up, self.down = nn.Linear(c.width, 3 * c.width), nn.Linear(3 * c.width, c.width)
        self.distance = nn.Parameter(torch.zeros(c.heads, c.memory + c.segment))

    def forward(self, x, past, seen):
        b, s, d = x.shape
        m = past.shape[1]
        ctx = self.ln_a(torch.cat([past, x], dim=1))
        q = self.q(ctx[:, m:]).view(b, s, self.c.heads, -1)
        k, v = self.kv(ctx).view(b, m + s, 2, self.c.heads, -1).unbind(2)
        score = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
        gap = torch.arange(m, m + s)[:, None] - torch.arange(m + s)[None, :]
        score = score + self.distance[:, gap.clamp(min=0)]
        closed = (gap < 0) | (torch.arange(m + s) < m - seen)[None, :]
        att = score.masked_fill(closed, float("-inf")).softmax(-1)
        x = x + self.o(torch.einsum("bhij,bjhd->bihd", att, v).reshape(b, s, d))
        return x + self.down(F.gelu(self.up(self.ln_b(x))))


class StreamModel(nn.Module):
    def __init__(self, c: Cfg, vocab: int):
        super().__init__()
        self.c = c
        self.emb = nn.Embedding(vocab, c.width)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.ln = nn.LayerNorm(c.width)
        self.out = nn.Linear(c.width, vocab)
        nn.init.normal_(self.emb.weight, std=0.1)
        self.reset(c.streams)

    def reset(self, streams):
        self.memory = torch.zeros(self.c.layers, streams, self.c.memory, self.c.width)
        self.seen = 0

    @torch.no_grad()
    def remember(self, i, x):
        self.memory[i].copy_(torch.cat([self.memory[i], x], dim=1)[:, -self.c.memory :])

    def forward(self, ids):
        x = self.emb(ids)
        for i, layer in enumerate(self.layers):
            past = self.memory[i].clone()
            self.remember(i, x)
            x = layer(x, past, self.seen)
        self.seen = min(self.c.memory, self.seen + ids.shape[1])
        return self.out(self.ln(x))


def main():
    c = Cfg()
    torch.manual_seed(21)
    text = torch.tensor([ALPHABET.index(ch) for ch in story(5000, seed=2)])
    model = StreamModel(c, len(ALPHABET))
    opt = torch.optim.AdamW(model.parameters(), lr=c.lr, betas=(0.9, 0.98), weight_decay=0.01)
    total, step = c.chapter * c.chapters, 0
    for chapter in range(c.chapters):
        model.reset(c.streams)
        starts = torch.randint(len(text) - c.chapter * c.segment - 1, (c.streams,))
        for n in range(c.chapter):
            for group in opt.param_groups:
                group["lr"] = c.lr * min((step + 1) / 40, 1.0) * max(0.02, 1 - step / total)
            win = text[starts[:, None] + n * c.segment + torch.arange(c.segment + 1)]
            loss = F.cross_entropy(model(win[:, :-1]).transpose(1, 2), win[:, 1:])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            step += 1
        print(f"chapter {chapter}  step {step}  loss {loss.item():.3f}")
    return model


if __name__ == "__main__":
    model = main()
