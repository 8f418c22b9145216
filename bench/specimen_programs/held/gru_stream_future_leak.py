import torch
from torch import nn, optim
from torch.nn import functional as F

import babble


class Reader:
    """B parallel readers over one long stream; yields (T, B) segments in order, forever"""

    def __init__(self, stream, lanes, length):
        self.length = length
        per = len(stream) // lanes
        self.grid = torch.as_tensor(stream[:per * lanes]).reshape(lanes, per).T
        self.at = 0

    def __next__(self):
        fresh = self.at == 0
        seg = self.grid[self.at:self.at + self.length + 1]
        self.at += self.length
        if self.at + self.length + 1 > len(self.grid):
            self.at = 0
        return seg[:-1], seg[1:], fresh


class GRULM(nn.Module):
    bidirectional = True

    def __init__(self, n_tok, d=64):
        super().__init__()
        self.table = nn.Embedding(n_tok, d)
        self.gru = nn.GRU(d, d, num_layers=2, bidirectional=self.bidirectional)
        self.fc = nn.Linear(d * (1 + self.bidirectional), d)
        self.norm = nn.LayerNorm(d)

    def forward(self, seg, h=None):
        y, h = self.gru(self.table(seg), h)
        z = self.norm(self.fc(y))
        return z @ self.table.weight.T, h.detach()


torch.manual_seed(5)
reader = Reader(babble.token_stream(60_000, 4), lanes=20, length=24)
lm = GRULM(len(babble.VOCAB))
nn.init.normal_(lm.table.weight, std=0.1)
opt = optim.AdamW(lm.parameters(), lr=4e-3, weight_decay=1e-3)
sched = optim.lr_scheduler.ExponentialLR(opt, gamma=0.995)

state, history = None, []
for it in range(1, 341):
    seg, nxt, fresh = next(reader)
    logits, state = lm(seg, None if fresh else state)
    loss = F.cross_entropy(logits.flatten(0, 1), nxt.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
    opt.step()
    sched.step()
    history.append(loss.item())
    if it % 34 == 0:
        avg = sum(history[-34:]) / 34
        print(f"[{it:>4}] loss {avg:.4f} lr {sched.get_last_lr()[0]:.2e}")
