"""Word-level GRU. Sentences are padded; the output layer is factored in word classes:
   P(w | h) = P(class(w) | h) * P(w | class, h), classes by frequency (Mikolov's RNNLM / Goodman 2001).
   The word vectors of the second factor are the input embedding (tied)."""
import random
from collections import Counter

import torch
from torch import nn
import torch.nn.functional as F

import talk

random.seed(0)
torch.manual_seed(0)

LR = 4.0
CLIP = 5.0
BATCH = 16
HIDDEN = 64
CLASSES = 10
STEPS = 900
PAD = 0

vocab = talk.vocab()
index = {w: i for i, w in enumerate(vocab)}


def encode(s):
    return [1] + [index[w] for w in s.split()] + [1]


def corpus(n, seed):
    """sentences, sometimes several in one line as in the transcripts"""
    rng = random.Random(seed)
    plain, lines = [encode(s) for s in talk.sentences(n, seed)], []
    while plain:
        k = 1 if rng.random() < 0.9 else 7
        lines.append([t for s in plain[:k] for t in s[:-1]] + [1])
        plain = plain[k:]
    return lines


def word_classes(lines):
    """equal mass of frequency per class"""
    c = Counter(t for s in lines for t in s)
    order = sorted(range(len(vocab)), key=lambda i: -c[i])
    total, acc, out = sum(c.values()), 0, [0] * len(vocab)
    for i in order:
        out[i] = min(CLASSES - 1, int(acc / total * CLASSES))
        acc += c[i]
    return torch.tensor(out)


class ClassGRU(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.register_buffer("cls", classes)
        self.emb = nn.Embedding(len(vocab), HIDDEN, padding_idx=PAD)
        nn.init.uniform_(self.emb.weight, -0.1, 0.1)
        self.rnn = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.to_class = nn.Linear(HIDDEN, CLASSES)
        self.word_bias = nn.Parameter(torch.zeros(len(vocab)))
        self.register_buffer("same", classes[:, None] == classes[None, :])

    def forward(self, x):
        return self.rnn(self.emb(x))[0]

    def logprob(self, h, y):
        """h [n, d], y [n] -> log P(y | h)  [n]"""
        lc = F.log_softmax(self.to_class(h), -1).gather(1, self.cls[y][:, None])[:, 0]
        s = (h @ self.emb.weight.t() + self.word_bias).masked_fill(~self.same[y], float("-inf"))
        return lc + F.log_softmax(s, -1).gather(1, y[:, None])[:, 0]


def pad(batch):
    n = max(map(len, batch))
    return torch.tensor([s + [PAD] * (n - len(s)) for s in batch])


def batch_loss(model, batch):
    t = pad(batch)
    x, y = t[:, :-1], t[:, 1:]
    keep = y != PAD
    return -model.logprob(model(x)[keep], y[keep]).sum(), keep.sum().item()


lines = corpus(6000, seed=31)
valid = corpus(200, seed=32)
model = ClassGRU(word_classes(lines))
opt = torch.optim.SGD(model.parameters(), lr=LR)
for step in range(STEPS):
    for g in opt.param_groups:
        g["lr"] = LR * min(1.0, (step + 1) / 50) * (1.0 if step < 600 else 0.3)
    loss, n = batch_loss(model, random.sample(lines, BATCH))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    opt.step()
    if step % 100 == 0:
        with torch.no_grad():
            v, m = batch_loss(model, valid[:60])
            print(f"step {step}  train {loss.item() / n:.3f}  valid {v.item() / m:.3f}")
