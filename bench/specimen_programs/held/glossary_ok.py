import torch
from torch import nn
import torch.nn.functional as F

"""Encoder-decoder with hand-made attention. Task: a line of (key, value) pairs and a list of asked keys -> the values, in the asked order."""

KEYS, VALUES, PAIRS, ASKED = 8, 12, 5, 4
START = KEYS + VALUES
SIZE = START + 1


def draw(n, g):
    keys = torch.stack([torch.randperm(KEYS, generator=g)[:PAIRS] for _ in range(n)])
    vals = torch.randint(VALUES, (n, PAIRS), generator=g)
    pick = torch.randint(PAIRS, (n, ASKED), generator=g)
    source = torch.cat([torch.stack([keys, KEYS + vals], 2).flatten(1), keys.gather(1, pick)], 1)
    answer = KEYS + vals.gather(1, pick)
    decoder_input = torch.cat([torch.full((n, 1), START), answer[:, :-1]], 1)
    return source, decoder_input, answer


def attend(q, k, v, causal=False):
    w = q @ k.transpose(1, 2) * q.size(-1) ** -0.5
    if causal:
        w = w + torch.full(w.shape[1:], float("-inf")).triu(1)
    return F.softmax(w, dim=-1) @ v


class Sub(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.q, self.kv, self.o = nn.LayerNorm(d), nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.ReLU(), nn.Linear(3 * d, d))

    def forward(self, x, other=None, causal=False):
        y = self.norm(x)
        k, v = self.kv(y if other is None else other).chunk(2, -1)
        x = x + self.o(attend(self.q(y), k, v, causal))
        return x + self.ff(x)


class EncDec(nn.Module):
    def __init__(self, d=56):
        super().__init__()
        self.emb = nn.Embedding(SIZE, d)
        self.p_enc = nn.Parameter(torch.randn(2 * PAIRS + ASKED, d) * 0.1)
        self.p_dec = nn.Parameter(torch.randn(ASKED, d) * 0.1)
        self.enc = nn.ModuleList([Sub(d), Sub(d)])
        self.dec_self, self.dec_cross = Sub(d), Sub(d)
        self.final = nn.LayerNorm(d)

    def encode(self, source):
        h = self.emb(source) + self.p_enc
        for layer in self.enc:
            h = layer(h)
        return h

    def forward(self, source, dec):
        mem = self.encode(source)
        h = self.emb(dec) + self.p_dec[: dec.size(1)]
        h = self.dec_cross(self.dec_self(h, causal=True), mem)
        return self.final(h) @ self.emb.weight.T


g = torch.Generator().manual_seed(40)
torch.manual_seed(40)
net = EncDec()
nn.init.normal_(net.emb.weight, std=0.15)
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(900):
    src, dec, ans = draw(48, g)
    loss = F.cross_entropy(net(src, dec).flatten(0, 1), ans.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % 90 == 0:
        print(f"{step + 1:5d}  loss {loss.item():.4f}")
