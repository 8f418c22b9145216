# Which of six topics is a note about?  Word embeddings -> two convolutions -> max over time -> linear.
import random

import torch
from torch import nn
from torch.nn import functional as F

from batching import pad_rows, padding_mask
from talk import TOPICS, notes

torch.manual_seed(3)
random.seed(3)

EPOCHS = 11
BATCH = 24
LR = 3e-3
WIDTH = 48
CHANNELS = 96

train = notes(3000, seed=100)
itos = ["<pad>", "<unk>"] + sorted({w for words, _ in train for w in words})
stoi = {w: i for i, w in enumerate(itos)}


def encode(words):
    return [stoi.get(w, 1) for w in words]


class NoteNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(len(itos), WIDTH, padding_idx=0)
        self.conv2 = nn.Conv1d(WIDTH, CHANNELS, 2, padding=1)
        self.conv3 = nn.Conv1d(WIDTH, CHANNELS, 3, padding=1)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * CHANNELS, len(TOPICS))

    def forward(self, ids, lengths):
        pad = padding_mask(lengths, ids.shape[1])
        x = self.emb(ids).masked_fill(pad.unsqueeze(-1), 0.0).transpose(1, 2)
        pooled = []
        for conv in (self.conv2, self.conv3):
            h = F.relu(conv(x))[:, :, : ids.shape[1]]
            pooled.append(h.masked_fill(pad.unsqueeze(1), 0.0).amax(dim=2))
        return self.out(self.drop(torch.cat(pooled, dim=1)))


model = NoteNet()
opt = torch.optim.Adam(model.parameters(), lr=LR)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.85)

for epoch in range(EPOCHS):
    model.train()
    random.shuffle(train)
    total = hits = 0
    for i in range(0, len(train), BATCH):
        part = train[i : i + BATCH]
        rows = [encode(words) for words, _ in part]
        y = torch.tensor([label for _, label in part])
        logits = model(pad_rows(rows), [len(r) for r in rows])
        loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        total += loss.item() * len(part)
        hits += (logits.argmax(1) == y).sum().item()
    print(f"epoch {epoch:2d}  loss {total / len(train):.4f}  accuracy {hits / len(train):.3f}")
