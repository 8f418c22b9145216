"""One recurrent trunk, three heads: the next character, the one after it, and the third.

The heads are run one after the other and only their gradient with respect to the trunk's output is kept,
so that a single (batch, time, vocabulary) tensor is alive at any time.
"""
import math

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import talk

AHEAD = 3
WIDTH = 96
STEPS = 500
PEAK = 6e-3


class Trunk(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed = nn.Embedding(vocab, 32)
        self.rnn = nn.GRU(32, width, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        return self.norm(self.rnn(self.embed(ids))[0])


class Head(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.out = nn.Linear(width, vocab)

    def forward(self, h):
        return self.out(h + torch.tanh(self.mix(h)))


class Model(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.trunk = Trunk(vocab, WIDTH)
        self.heads = nn.ModuleList([Head(vocab, WIDTH) for _ in range(AHEAD)])

    def forward(self, ids):
        h = self.trunk(ids)
        return [head(h) for head in self.heads]


def sample(data, size, length):
    at = torch.randint(0, data.numel() - length - AHEAD, (size,))
    win = torch.stack([data[i : i + length + AHEAD] for i in at.tolist()])
    return win[:, :length], [win[:, k : k + length] for k in range(1, AHEAD + 1)]


def backward_by_heads(model, x, targets):
    h = model.trunk(x)
    stop = h.detach().requires_grad_()
    losses = []
    for head, y in zip(model.heads, targets):
        loss = cross_entropy(head(stop).flatten(0, 1), y.flatten())
        loss.backward()
        losses.append(loss.item())
    h.backward(stop.grad)
    return losses


def train():
    torch.manual_seed(2024)
    data = torch.tensor([talk.ALPHABET.index(c) for c in talk.story(3500, seed=5)])
    model = Model(len(talk.ALPHABET))
    opt = torch.optim.Adam(model.parameters(), lr=PEAK, betas=(0.9, 0.99))
    for step in range(STEPS):
        for g in opt.param_groups:
            g["lr"] = PEAK * min(1, (step + 1) / 20) * (0.02 + 0.49 * (1 + math.cos(math.pi * step / STEPS)))
        x, targets = sample(data, 24, 48)
        opt.zero_grad()
        losses = backward_by_heads(model, x, targets)
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        if step % 50 == 0 or step == STEPS - 1:
            print(f"[{step:4d}] " + "  ".join(f"+{k + 1}: {l:.3f}" for k, l in enumerate(losses)))
    return model


if __name__ == "__main__":
    model = train()
