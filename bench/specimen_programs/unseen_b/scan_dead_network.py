# Linear recurrence language model on characters (in the spirit of RWKV / LRU / minGRU)
#    h_t = a_t * h_{t-1} + b_t        with a_t, b_t from the input only
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import talk

ap = argparse.ArgumentParser()
ap.add_argument("--steps", type=int, default=600)
ap.add_argument("--batch", type=int, default=16)
ap.add_argument("--ctx", type=int, default=40)
ap.add_argument("--dim", type=int, default=64)
ap.add_argument("--layers", type=int, default=2)
ap.add_argument("--lr", type=float, default=8e-3)
ap.add_argument("--seed", type=int, default=7)


class Scan(torch.autograd.Function):
    """h_t = a_t h_{t-1} + b_t along dim 1. Own backward, as the graph of the loop would be long."""

    @staticmethod
    def forward(ctx, a, b):
        h = torch.empty_like(b)
        cur = torch.zeros_like(b[:, 0])
        for t in range(b.shape[1]):
            cur = a[:, t] * cur + b[:, t]
            h[:, t] = cur
        ctx.save_for_backward(a, h)
        return h

    @staticmethod
    def backward(ctx, gh):
        a, h = ctx.saved_tensors
        ga, gb = torch.zeros_like(a), torch.empty_like(gh)
        carry = torch.zeros_like(gh[:, 0])
        for t in range(gh.shape[1] - 1, -1, -1):
            carry = carry + gh[:, t]
            gb[:, t] = carry
            if t > 0:
                ga[:, t] = carry * h[:, t - 1]
            carry = carry * a[:, t]
        return ga, gb


class Gate(nn.Linear):
    """A linear layer that ends in a sigmoid."""


class TimeMix(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.decay = Gate(d, d)
        self.value = nn.Linear(d, d)
        self.receptance = nn.Linear(d, d)
        self.out = nn.Linear(d, d)

    def forward(self, x):
        f = torch.sigmoid(self.decay(x))        # how much is forgotten
        h = Scan.apply(1 - f, f * self.value(x))
        return self.out(torch.sigmoid(self.receptance(x)) * h)


class ChannelMix(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.key = nn.Linear(d, 3 * d)
        self.value = nn.Linear(3 * d, d)

    def forward(self, x):
        return self.value(torch.relu(self.key(x)) ** 2)


class Net(nn.Module):
    def __init__(self, v, d, layers):
        super().__init__()
        self.emb = nn.Embedding(v, d)
        self.mix = nn.ModuleList()
        for _ in range(layers):
            self.mix.append(nn.ModuleList([nn.LayerNorm(d), TimeMix(d), nn.LayerNorm(d), ChannelMix(d)]))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, v)
        self.apply(self.init)

    @staticmethod
    def init(m):
        if isinstance(m, nn.Linear):
            nn.init.constant_(m.bias, -math.log(4000))      # forget slowly at the beginning
        if isinstance(m, nn.Embedding):
            nn.init.normal_(m.weight, std=0.3)

    def forward(self, x):
        x = self.emb(x)
        for n1, time, n2, channel in self.mix:
            x = x + time(n1(x))
            x = x + channel(n2(x))
        return self.head(self.norm(x))


def main(args):
    torch.manual_seed(args.seed)
    raw = talk.text(4000, seed=11)
    alphabet = sorted(set(raw))
    ids = torch.tensor([alphabet.index(c) for c in raw])
    model = Net(len(alphabet), args.dim, args.layers)
    model.alphabet = alphabet
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.99))
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.steps, pct_start=0.1)
    ema = None
    for step in range(1, args.steps + 1):
        at = torch.randint(len(ids) - args.ctx - 1, (args.batch, 1)) + torch.arange(args.ctx + 1)
        chunk = ids[at]
        logits = model(chunk[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), chunk[:, 1:])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        ema = loss.item() if ema is None else 0.95 * ema + 0.05 * loss.item()
        if step % 60 == 0:
            print(f"{step:5d}  loss {ema:.3f}  lr {sched.get_last_lr()[0]:.5f}")
    return model


if __name__ == "__main__":
    model = main(ap.parse_args())
