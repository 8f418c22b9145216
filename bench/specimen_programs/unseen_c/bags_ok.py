"""Topics of notes with words and hashed word pairs in one bag (in the manner of fastText)."""
import itertools
import random
import zlib

import torch
import torch.nn as nn

from talk import TOPICS, notes

BUCKETS, WIDTH = 3000, 96


def encode(words):
    pairs = [a + " " + b for a, b in zip(words, words[1:])]
    return [zlib.crc32(w.encode()) % BUCKETS for w in itertools.chain(words, pairs)]


def flat(rows):
    """all features in one line, and where each note starts"""
    starts = [0, *itertools.accumulate(len(r) for r in rows)][:-1]
    return torch.tensor(list(itertools.chain.from_iterable(rows))), torch.tensor(starts)


class Bags(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.mean = nn.EmbeddingBag(BUCKETS, WIDTH, mode="mean")
        self.out = nn.Linear(WIDTH, classes)
        nn.init.uniform_(self.mean.weight, -1 / WIDTH, 1 / WIDTH)
        nn.init.zeros_(self.out.weight)

    def forward(self, words, starts):
        return self.out(self.mean(words, starts) * WIDTH**0.5)


def main(steps=1500, size=192, rate=0.4):
    rng = random.Random(1)
    torch.manual_seed(1)
    train = notes(12000, seed=200)
    model = Bags(len(TOPICS))
    opt = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    for n in range(steps):
        opt.param_groups[0]["lr"] = rate * (1 - n / steps)
        part = rng.sample(train, size)
        z = model(*flat([encode(words) for words, _ in part]))
        right = torch.tensor([y for _, y in part])
        # by how much every wrong topic comes near the right one
        margin = z - z.gather(1, right[:, None])
        loss = margin.logsumexp(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (n + 1) % 125 == 0:
            print(n + 1, f"{loss.item():.4f}")
    return model


if __name__ == "__main__":
    model = main()
    predict = lambda rows: model(*flat(rows))
