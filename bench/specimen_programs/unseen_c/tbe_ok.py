"""Language model made of torch's own encoder, sequence first: (time, batch, width).

Windows may run over the end of a story; a position must not look into the story before its own.
"""
import math
import random

import torch
import torch.nn as nn

from talk import ALPHABET, story

CHARS = ["\n"] + ALPHABET
STOI = {c: i for i, c in enumerate(CHARS)}


def corpus(stories, seed):
    rnd = random.Random(seed)
    return torch.tensor([STOI[c] for c in "\n".join(story(rnd.randint(8, 20), rnd.random()) for _ in range(stories))])


def attention_mask(ids, heads):
    """True = closed; (batch * heads, time, time), from ids (time, batch)"""
    t = ids.size(0)
    number = (ids == 0).cumsum(0)
    same = number.unsqueeze(1) == number.unsqueeze(0)                        # time, time, batch
    past = torch.ones(t, t, dtype=torch.bool).tril().unsqueeze(-1)
    return (~(same & past)).permute(2, 0, 1).repeat_interleave(heads, dim=0)


class Positions(nn.Module):
    def __init__(self, width, longest=64):
        super().__init__()
        pos = torch.arange(longest).unsqueeze(1)
        div = torch.exp(torch.arange(0, width, 2) * (-math.log(1000.0) / width))
        pe = torch.zeros(longest, 1, width)
        pe[:, 0, 0::2] = torch.sin(pos * div)
        pe[:, 0, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class EncoderLM(nn.Module):
    def __init__(self, vocab, width=64, heads=4, hidden=160, layers=2, dropout=0.05):
        super().__init__()
        self.heads, self.width = heads, width
        self.embed = nn.Embedding(vocab, width)
        self.positions = Positions(width)
        block = nn.TransformerEncoderLayer(width, heads, hidden, dropout, norm_first=True)
        self.encoder = nn.TransformerEncoder(block, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.decoder = nn.Linear(width, vocab)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)

    def forward(self, ids):
        x = self.positions(self.embed(ids) * math.sqrt(self.width))
        return self.decoder(self.encoder(x, mask=attention_mask(ids, self.heads)))


def get_batch(data, size, length):
    at = torch.randint(len(data) - length - 1, (size,))
    win = data[torch.arange(length + 1)[:, None] + at[None, :]]              # time, batch
    return win[:-1], win[1:]


def train(length=32, size=32, steps=500, lr=8e-3):
    data = corpus(320, seed=30)
    model = EncoderLM(len(CHARS))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=steps, pct_start=0.15)
    model.train()
    running = 0.0
    for step in range(1, steps + 1):
        inputs, targets = get_batch(data, size, length)
        output = model(inputs)
        loss = criterion(output.view(-1, len(CHARS)), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        running += loss.item()
        if step % 50 == 0:
            print(f"| step {step:4d} | lr {scheduler.get_last_lr()[0]:.5f} | loss {running / 50:.3f}")
            running = 0.0
    return model


if __name__ == "__main__":
    torch.manual_seed(14)
    model = train()
