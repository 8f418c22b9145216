# Recurrence without a loop: with A_t = log a_1 + ... + log a_t
#     h_t = exp(A_t) * sum_{s<=t} exp(-A_s) b_s
# The decay is held above exp(-0.5) and the sums restart every 16 characters, so exp(-A) stays below 3000.
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

import talk

ap = argparse.ArgumentParser()
ap.add_argument("--steps", type=int, default=800)
ap.add_argument("--batch", type=int, default=4)
ap.add_argument("--ctx", type=int, default=96)
ap.add_argument("--dim", type=int, default=72)
ap.add_argument("--lr", type=float, default=6e-3)


def scan(loga, b, piece=16):
    h, last = [], torch.zeros_like(b[:, :1])
    for la, bb in zip(loga.split(piece, 1), b.split(piece, 1)):
        A = la.cumsum(1)
        h.append(A.exp() * (last + ((-A).exp() * bb).cumsum(1)))
        last = h[-1][:, -1:]
    return torch.cat(h, 1)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.pre = nn.RMSNorm(d)
        self.inp = nn.Linear(2 * d, 3 * d)
        self.out = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.RMSNorm(d), nn.Linear(d, 3 * d), nn.SiLU(), nn.Linear(3 * d, d))

    def forward(self, x):
        z = self.pre(x)
        before = torch.roll(z, 1, dims=1)
        before[:, 0] = 0
        f, v, g = self.inp(torch.cat([z, before], -1)).chunk(3, -1)
        loga = -0.5 * torch.sigmoid(f)
        h = scan(loga, (1 - loga.exp()) * v)
        x = x + self.out(F.silu(g) * h)
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, alphabet, d):
        super().__init__()
        self.alphabet = alphabet
        self.emb = nn.Embedding(len(alphabet), d)
        self.body = nn.Sequential(Block(d), Block(d), nn.RMSNorm(d))
        self.head = nn.Linear(d, len(alphabet), bias=False)

    def forward(self, x):
        return self.head(self.body(self.emb(x)))


if __name__ == "__main__":
    args = ap.parse_args()
    torch.manual_seed(77)
    raw = talk.text(4000, seed=12)
    alphabet = sorted(set(raw))
    ids = torch.tensor([alphabet.index(c) for c in raw])
    model = Model(alphabet, args.dim)
    opt = torch.optim.NAdam(model.parameters(), lr=args.lr, betas=(0.9, 0.99))
    # a few long streams read side by side; every update continues where the last one stopped
    n = len(ids) // args.batch
    streams = ids[:n * args.batch].view(args.batch, n)
    at = 0
    for step in range(1, args.steps + 1):
        for g in opt.param_groups:
            g["lr"] = args.lr * min(step / 40, 1.03 - step / args.steps, 1)
        if at + args.ctx + 1 > n:
            at = step % 17
        x, y = streams[:, at:at + args.ctx], streams[:, at + 1:at + args.ctx + 1]
        at += args.ctx
        nll = -model(x).log_softmax(-1)[torch.arange(args.batch)[:, None], torch.arange(args.ctx), y]
        loss = nll.sum() / nll.numel()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        opt.step()
        if step % 50 == 0:
            print(f"{step} {loss.item() / 0.6931:.3f} bits/char")
