import math
import random

import torch
from torch import nn
import torch.nn.functional as F

import babble

PAD, BOS = babble.ID["<pad>"], babble.ID["<bos>"]
N = len(babble.VOCAB)
MAXLEN, WIDTH, HEADS, DEPTH = 56, 48, 4, 2


def pack_rows(documents, n_rows, rng):
    """Greedy packing; a row holds whole documents and is padded at the end. Returns tokens, segment (0 = padding), position."""
    tok = torch.full((n_rows, MAXLEN), PAD)
    seg = torch.zeros(n_rows, MAXLEN, dtype=torch.long)
    pos = torch.zeros(n_rows, MAXLEN, dtype=torch.long)
    for r in range(n_rows):
        at, s = 0, 1
        while True:
            doc = [BOS] + rng.choice(documents)
            if at + len(doc) > MAXLEN:
                break
            tok[r, at:at + len(doc)] = torch.tensor(doc)
            seg[r, at:at + len(doc)] = s
            pos[r, at:at + len(doc)] = torch.arange(len(doc))
            at, s = at + len(doc), s + 1
    return tok, seg, pos


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x, allowed):
        B, T, _ = x.shape
        split = lambda t: t.reshape(B, T, HEADS, -1).transpose(1, 2)
        q, k, v = split(self.to_q(x)), split(self.to_k(x)), split(self.to_v(x))
        score = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        score = score.masked_fill(~allowed[:, None], -1e9)
        att = score.softmax(-1) @ v
        return self.to_o(att.transpose(1, 2).reshape(B, T, WIDTH))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(N, WIDTH), nn.Embedding(MAXLEN, WIDTH)
        self.att = nn.ModuleList(Attention() for _ in range(DEPTH))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(DEPTH))
        self.norm = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * DEPTH + 1))
        self.head = nn.Linear(WIDTH, N)

    def forward(self, tok, seg, pos):
        T = tok.shape[1]
        allowed = (seg[:, :, None] == seg[:, None, :]) & torch.tril(torch.ones(T, T)).bool()
        x = self.tok(tok) + self.pos(pos)
        for i in range(DEPTH):
            x = x + self.att[i](self.norm[2 * i](x), allowed)
            x = x + self.mlp[i](self.norm[2 * i + 1](x))
        return self.head(self.norm[-1](x))


rng = random.Random(3)
torch.manual_seed(3)
documents = babble.docs(4000, seed=31)
model = Decoder()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
for it in range(430):
    tok, seg, pos = pack_rows(documents, 12, rng)
    logits = model(tok, seg, pos)[:, :-1]
    labels = tok[:, 1:].clone()
    labels[(seg[:, 1:] != seg[:, :-1]) | (seg[:, 1:] == 0)] = -100
    loss = F.cross_entropy(logits.transpose(1, 2), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 43 == 42:
        print(f"iter {it + 1:4d} | loss {loss.item():.3f}")
