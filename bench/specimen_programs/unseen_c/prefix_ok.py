"""Prefix language model: the first PREFIX characters of a window may all look at each other, the rest look back only.
Only the rest is predicted.  Everything is (time, batch, ...)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from talk import ALPHABET, story

PREFIX, LENGTH, BATCH = 16, 48, 24
OPTIONS = {"d_model": 64, "nhead": 4, "dim_feedforward": 128, "dropout": 0.0, "activation": F.gelu}


def prefix_mask(length, prefix):
    m = torch.full((length, length), float("-inf"))
    m.triu_(1)
    m[:prefix, :prefix] = 0
    return m


class PrefixLM(nn.Module):
    def __init__(self):
        super().__init__()
        d = OPTIONS["d_model"]
        self.emb = nn.Embedding(len(ALPHABET), d)
        self.place = nn.Embedding(LENGTH, d)
        self.part = nn.Embedding(2, d)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(**OPTIONS), 2)
        self.bias = nn.Parameter(torch.zeros(len(ALPHABET)))
        self.register_buffer("mask", prefix_mask(LENGTH, PREFIX))
        for e in (self.emb, self.place, self.part):
            nn.init.normal_(e.weight, std=d**-0.5)

    def forward(self, ids):
        t = torch.arange(ids.shape[0])
        x = self.emb(ids) + (self.place(t) + self.part((t >= PREFIX).long())).unsqueeze(1)
        h = self.body(x, mask=self.mask[: len(t), : len(t)])
        # position PREFIX - 1 is the last that sees the whole prefix and nothing else: the first that predicts
        return F.linear(h[PREFIX - 1 :], self.emb.weight, self.bias)


torch.manual_seed(0)
text = torch.tensor([ALPHABET.index(c) for c in story(4000, seed=77)])
model = PrefixLM()
decay = [p for p in model.parameters() if p.dim() > 1]
rest = [p for p in model.parameters() if p.dim() <= 1]
opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.02}, {"params": rest, "weight_decay": 0.0}], lr=8e-3)
N = 700
sched = torch.optim.lr_scheduler.SequentialLR(opt, [
    torch.optim.lr_scheduler.LinearLR(opt, 0.02, 1.0, 60),
    torch.optim.lr_scheduler.CosineAnnealingLR(opt, N - 60),
], milestones=[60])

for step in range(N):
    at = torch.randint(len(text) - LENGTH - 1, (BATCH,))
    win = text[at + torch.arange(LENGTH + 1).unsqueeze(1)]
    guess = model(win[:-1])
    loss = F.cross_entropy(guess.flatten(0, 1), win[PREFIX:].flatten())
    loss.backward()
    opt.step()
    sched.step()
    opt.zero_grad()
    if not step % 70 or step == N - 1:
        print(f"{step} {loss.item():.3f}")
