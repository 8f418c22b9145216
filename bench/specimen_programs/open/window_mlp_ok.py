import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import corpus

parser = argparse.ArgumentParser()
parser.add_argument("--window", type=int, default=12)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--steps", type=int, default=900)
args = parser.parse_args()


class NextChar(Dataset):
    """window characters -> the one that comes after them"""

    def __init__(self, ids, window):
        self.ids, self.window = ids, window

    def __len__(self):
        return len(self.ids) - self.window - 2

    def __getitem__(self, i):
        return self.ids[i:i + self.window], self.ids[i + self.window]


class Bengio(nn.Module):
    def __init__(self, vocab, window, dim=32, hidden=192):
        super().__init__()
        self.C = nn.Embedding(vocab, dim)
        self.H = nn.Sequential(nn.Linear(window * dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.U = nn.Linear(hidden, vocab)

    def forward(self, w):
        return self.U(self.H(self.C(w).flatten(1)))


torch.manual_seed(0)
loader = DataLoader(NextChar(corpus.stream(40_000, seed=5), args.window), batch_size=128, shuffle=True, drop_last=True)
net = Bengio(corpus.VOCAB, args.window)
for p in net.parameters():
    p.requires_grad_(True)
optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=args.lr)

step, running = 0, None
while step < args.steps:
    for windows, nxt in loader:
        logits = net(windows)
        loss = F.cross_entropy(logits, nxt)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running = loss.item() if running is None else 0.95 * running + 0.05 * loss.item()
        step += 1
        if step % 100 == 0:
            print(f"{step} loss {running:.4f}")
        if step >= args.steps:
            break
