"""
Weights kept in bfloat16. What each update loses in rounding is kept in a second bfloat16 number and added to the
next one (Kahan), moments in float32. No modules: parameters are a dict of tensors, the forward is a function.
"""
import torch
import torch.nn.functional as F
from torch.func import grad_and_value

import talk

TEXT = talk.text(3500, seed=53)
CHARS = sorted(set(TEXT))
IDS = torch.tensor([CHARS.index(c) for c in TEXT])
N, D, H, CONTEXT = len(CHARS), 24, 160, 10
BATCH, TOTAL = 320, 1000
PEAK = 8e-3


def init(gen):
    r = lambda *s, k: torch.randn(*s, generator=gen) * k
    return {
        "emb": r(N, D, k=0.3),
        "w1": r(CONTEXT * D, H, k=(CONTEXT * D) ** -0.5), "b1": torch.zeros(H),
        "w2": r(H, H, k=H ** -0.5), "b2": torch.zeros(H),
        "w3": r(H, N, k=H ** -0.5), "b3": torch.zeros(N),
    }


def logits(p, x):
    """x [n, CONTEXT] -> [n, N], the character after the context"""
    p = {k: v.float() for k, v in p.items()}
    h = F.gelu(p["emb"][x].flatten(1) @ p["w1"] + p["b1"])
    h = h + F.gelu(h @ p["w2"] + p["b2"])
    return h @ p["w3"] + p["b3"]


def objective(p, x, y):
    z = logits(p, x)
    return (z.logsumexp(1) - z[torch.arange(len(y)), y]).mean()


def update(p, lost, m, v, g, t, lr, b1=0.9, b2=0.99):
    for k in p:
        gk = g[k].float()
        m[k].mul_(b1).add_(gk, alpha=1 - b1)
        v[k].mul_(b2).addcmul_(gk, gk, value=1 - b2)
        delta = -lr * (m[k] / (1 - b1 ** t)) / ((v[k] / (1 - b2 ** t)).sqrt() + 1e-8)
        want = delta + lost[k].float()
        new = (p[k].float() + want).bfloat16()
        lost[k] = (want - (new.float() - p[k].float())).bfloat16()
        p[k] = new


def evaluate(ids):
    """logits at every place of ids [b, t]; before the text comes a line break"""
    padded = F.pad(ids, (CONTEXT - 1, 0), value=CHARS.index("\n"))
    return logits(params, padded.unfold(1, CONTEXT, 1).flatten(0, 1)).view(*ids.shape, N)


gen = torch.Generator().manual_seed(4)
params = {k: v.bfloat16() for k, v in init(gen).items()}
lost = {k: torch.zeros_like(v) for k, v in params.items()}
m = {k: torch.zeros(v.shape) for k, v in params.items()}
v = {k: torch.zeros(v.shape) for k, v in params.items()}
both = grad_and_value(objective)
mean = 0.0
for t in range(1, TOTAL + 1):
    at = torch.randint(len(IDS) - CONTEXT, (BATCH, 1), generator=gen) + torch.arange(CONTEXT + 1)
    w = IDS[at]
    g, loss = both(params, w[:, :-1], w[:, -1])
    update(params, lost, m, v, g, t, PEAK * min(1, t / 30) * (1.02 - t / TOTAL))
    mean += (loss.item() - mean) / min(t, 50)
    if t % 100 == 0:
        print(t, round(mean, 3))
