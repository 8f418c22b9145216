# a small transformer with nothing but tensors: own layer norm, own Adam, own cross entropy
import math

import torch
from torch import einsum

from talk import ALPHABET, story

torch.manual_seed(17)

V, T, B = len(ALPHABET), 40, 20
D, H, L, M = 56, 4, 2, 160
STEPS, RATE = 500, 4e-3
REACH = 0.8           # how far back a position may look, as a share of the window

data = torch.tensor([ALPHABET.index(c) for c in story(3500, seed=9)])

P = {}


def new(name, *shape, scale=None):
    scale = shape[0] ** -0.5 if scale is None else scale
    P[name] = (torch.randn(*shape) * scale).requires_grad_()


new("tok", V, D, scale=0.1)
new("pos", T, D, scale=0.02)
for l in range(L):
    new(f"q{l}", D, H, D // H)
    new(f"k{l}", D, H, D // H)
    new(f"v{l}", D, H, D // H)
    new(f"o{l}", H, D // H, D, scale=D**-0.5 / 2)
    new(f"in{l}", D, M)
    new(f"mid{l}", M, scale=0.0)
    new(f"out{l}", M, D, scale=M**-0.5 / 2)
    for n in ("a", "b"):
        new(f"g{n}{l}", D, scale=0.0)
        new(f"s{n}{l}", D, scale=0.0)
new("gf", D, scale=0.0)
new("sf", D, scale=0.0)
new("head", D, V, scale=0.05)


def norm(x, gain, shift):
    x = x - x.mean(-1, keepdim=True)
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * (1 + gain) + shift


def window(t):
    back = torch.arange(t)[:, None] - torch.arange(t)[None, :]
    return (back >= 0) & (back < REACH)


def attend(x, l):
    q, k, v = (einsum("btd,dhe->bthe", x, P[f"{n}{l}"]) for n in "qkv")
    score = einsum("bihe,bjhe->bijh", q, k) / math.sqrt(D // H)
    score = score.masked_fill(~window(x.shape[1])[None, :, :, None], -1e9)
    return einsum("bijh,bjhe,hed->bid", score.softmax(dim=2), v, P[f"o{l}"])


def model(ids):
    x = P["tok"][ids] + P["pos"][: ids.shape[1]]
    for l in range(L):
        x = x + attend(norm(x, P[f"ga{l}"], P[f"sa{l}"]), l)
        h = einsum("btd,dm->btm", norm(x, P[f"gb{l}"], P[f"sb{l}"]), P[f"in{l}"]) + P[f"mid{l}"]
        x = x + einsum("btm,md->btd", h * torch.sigmoid(1.7 * h), P[f"out{l}"])
    return einsum("btd,dv->btv", norm(x, P["gf"], P["sf"]), P["head"])


def cross_entropy(logits, target):
    right = logits.gather(-1, target[..., None])[..., 0]
    return (logits.logsumexp(-1) - right).mean()


params = list(P.values())
first = [torch.zeros_like(p) for p in params]
second = [torch.zeros_like(p) for p in params]

for step in range(1, STEPS + 1):
    at = torch.randint(len(data) - T - 1, (B, 1))
    win = data[at + torch.arange(T + 1)]
    loss = cross_entropy(model(win[:, :-1]), win[:, 1:])
    grads = torch.autograd.grad(loss, params)
    rate = RATE * min(1.0, step / 40) * (1 - 0.98 * step / STEPS)
    with torch.no_grad():
        for p, g, m, s in zip(params, grads, first, second):
            m.mul_(0.9).add_(g, alpha=0.1)
            s.mul_(0.99).addcmul_(g, g, value=0.01)
            p -= rate * (m / (1 - 0.9**step)) / ((s / (1 - 0.99**step)).sqrt() + 1e-8)
    if step == 1 or step % 50 == 0:
        print(step, round(loss.item(), 4))
