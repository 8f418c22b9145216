"""Two tasks on one causal trunk: the next word, and which topic the paragraph is about."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

import talk


@dataclass
class Config:
    length: int = 32
    batch: int = 32
    steps: int = 480
    dim: int = 64
    heads: int = 4
    layers: int = 2
    lr: float = 7e-3
    paragraphs: int = 3000
    seed: int = 17


WORD = {w: i + 1 for i, w in enumerate(talk.words())}     # 0 begins a paragraph


def encode(pairs, length=32):
    """(words in, words out, topic); paragraphs are cut to one length"""
    x = np.zeros((len(pairs), length), dtype=np.int64)
    y = np.zeros((len(pairs), length), dtype=np.int64)
    for k, (text, _) in enumerate(pairs):
        ids = [0] + [WORD[w] for w in text.split()]
        x[k], y[k] = ids[:length], ids[1:length + 1]
    return x, y, np.array([topic for _, topic in pairs])


class Trunk(nn.Module):
    def __init__(self, c):
        super().__init__()
        layer = nn.TransformerEncoderLayer(c.dim, c.heads, 2 * c.dim, dropout=0.0, activation="gelu",
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, c.layers, norm=nn.LayerNorm(c.dim), enable_nested_tensor=False)
        self.register_buffer("block", torch.triu(torch.ones(c.length, c.length, dtype=torch.bool), 1))

    def forward(self, x):
        n = self.block.shape[0]
        return self.layers(x, mask=self.block[:n, :n])


class TwoTasks(nn.Module):
    def __init__(self, c, topics):
        super().__init__()
        self.tok = nn.Embedding(len(WORD) + 1, c.dim)
        self.pos = nn.Parameter(0.02 * torch.randn(c.length, c.dim))
        self.trunk = Trunk(c)
        self.word_head = nn.Linear(c.dim, len(WORD) + 1)
        self.topic_head = nn.Linear(c.dim, topics)

    def forward(self, ids):
        n = ids.shape[1]
        if n < self.pos.shape[0]:
            ids = F.pad(ids, (0, self.pos.shape[0] - n))
        h = self.trunk(self.tok(ids) + self.pos)[:, :n]
        return self.word_head(h), self.topic_head(h[:, -1])


class Balance(nn.Module):
    """learned weights of the losses (Kendall, Gal and Cipolla)"""

    def __init__(self, n):
        super().__init__()
        self.s = nn.Parameter(torch.zeros(n))

    def forward(self, *losses):
        losses = torch.stack(losses)
        return ((-self.s).exp() * losses + self.s).sum()


def main():
    c = Config()
    torch.manual_seed(c.seed)
    x, y, topic = (torch.from_numpy(a) for a in encode(talk.paragraphs(c.paragraphs, seed=31), c.length))
    model, balance = TwoTasks(c, len(talk.TOPICS)), Balance(2)
    opt = torch.optim.AdamW([*model.parameters(), *balance.parameters()], lr=c.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, c.lr, total_steps=c.steps, pct_start=0.15)
    for step in range(c.steps):
        pick = torch.randint(len(x), (c.batch,))
        words, topics = model(x[pick])
        word_loss = F.cross_entropy(words.transpose(1, 2), y[pick])
        topic_loss = F.cross_entropy(topics, topic[pick])
        total = balance(word_loss, topic_loss)
        opt.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 40 == 0 or step == c.steps - 1:
            print(f"{step:4d} total {total.item():.3f} word {word_loss.item():.3f} topic {topic_loss.item():.3f}")
    return model


if __name__ == "__main__":
    main()
