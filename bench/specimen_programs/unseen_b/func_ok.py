"""Functional training: parameters are a plain dict, the optimizer is a pure function, gradients by torch.func."""
from typing import NamedTuple

import torch
from torch.func import functional_call, grad_and_value
import torch.nn as nn
import torch.nn.functional as F

import talk

TEXT = talk.text(3500, seed=51)
CHARS = sorted(set(TEXT))
IDS = torch.tensor([CHARS.index(c) for c in TEXT])
SPAN, BATCH, TOTAL, WARMUP = 32, 24, 800, 40
PEAK = 7e-3


class AdamState(NamedTuple):
    mu: dict
    nu: dict
    count: int


def adam_init(params):
    zeros = lambda: {k: torch.zeros_like(v) for k, v in params.items()}
    return AdamState(zeros(), zeros(), 0)


def ema(decay, old, new):
    return {k: decay * old[k] + (1 - decay) * new[k] for k in old}


def adam(params, grads, state, lr, b1=0.9, b2=0.99, eps=1e-8):
    n = state.count + 1
    mu = ema(b1, state.mu, grads)
    nu = ema(b2, state.nu, {k: g * g for k, g in grads.items()})
    fix1, fix2 = 1 - b1 ** n, 1 - b2 ** n
    new = {k: p - lr * (mu[k] / fix1) / ((nu[k] / fix2).sqrt() + eps) for k, p in params.items()}
    return new, AdamState(mu, nu, n)


def rate(step):
    warm = min(1.0, (step + 1) / WARMUP)
    cool = max(0.05, 1.0 - step / TOTAL)
    return PEAK * warm * cool


class Mixer(nn.Module):
    """causal token mixing with a learned triangular matrix per head, then an MLP"""

    def __init__(self, d, heads=4):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.score = nn.Parameter(torch.zeros(heads, SPAN, SPAN))
        self.v, self.o = nn.Linear(d, d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(3 * d, d)
        self.register_buffer("later", torch.ones(SPAN, SPAN).triu(1).bool())
        slope = -torch.arange(SPAN)[:, None].sub(torch.arange(SPAN)).abs().float()
        self.register_buffer("slope", slope * torch.tensor([0.05, 0.3, 1.0, 3.0])[:, None, None])

    def forward(self, x):
        b, t, d = x.shape
        w = (self.score + self.slope)[:, :t, :t].masked_fill(self.later[:t, :t], float("-inf")).softmax(-1)
        v = self.v(self.n1(x)).view(b, t, self.heads, -1)
        x = x + self.o(torch.einsum("hts,bshe->bthe", w, v).reshape(b, t, d))
        return x + self.down(F.silu(self.up(self.n2(x))))


class Net(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS), d)
        self.blocks = nn.Sequential(Mixer(d), Mixer(d), nn.LayerNorm(d))
        self.head = nn.Linear(d, len(CHARS))

    def forward(self, x):
        return self.head(self.blocks(self.emb(x)))


def loss_fn(params, x, y):
    return F.cross_entropy(functional_call(net, params, (x,)).flatten(0, 1), y.flatten())


torch.manual_seed(8)
net = Net()
params = {k: v.detach().clone() for k, v in net.named_parameters()}
state = adam_init(params)
step_fn = grad_and_value(loss_fn)
for step in range(TOTAL):
    at = torch.randint(len(IDS) - SPAN, (BATCH, 1)) + torch.arange(SPAN)
    window = IDS[at]
    grads, loss = step_fn(params, window[:, :-1], window[:, 1:])
    params, state = adam(params, grads, state, rate(step))
    if step % 80 == 0:
        print(f"step {step:4d} loss {loss.item():.4f}")
