# seq2seq addition with scheduled sampling: the decoder is a cell run step by step, and more and more often it is
# fed with its own guess instead of the right digit.
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(1)
torch.manual_seed(1)

SYMBOLS = "_0123456789+=^"
IDX = {c: i for i, c in enumerate(SYMBOLS)}
MAXNUM, BATCH, N_STEPS, HID = 60, 48, 1100, 96
LR = 0.006

table = [(a, b) for a in range(MAXNUM) for b in range(MAXNUM) if (a * 7 + b * 3) % 11]      # the rest is for tests
QUESTIONS = torch.tensor([[IDX[c] for c in f"{a}+{b}=".rjust(6, "_")] for a, b in table])
ANSWERS = torch.tensor([[IDX[c] for c in (str(a + b)[::-1] + "=").ljust(4, "_")] for a, b in table])


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(len(SYMBOLS), 32)
        self.enc = nn.GRU(32, HID // 2, batch_first=True, bidirectional=True)
        self.cell = nn.GRUCell(32 + HID, HID)
        self.start = nn.Linear(HID, HID)
        self.query = nn.Linear(HID, HID, bias=False)
        self.out = nn.Linear(HID, len(SYMBOLS))

    def forward(self, q, x, p_own=0.0):
        memory, last = self.enc(self.emb(q))
        h = torch.tanh(self.start(last.transpose(0, 1).flatten(1)))
        result, guess = [], None
        for t in range(x.shape[1]):
            token = x[:, t]
            if guess is not None and p_own > 0:
                own = torch.rand(len(token)) < p_own
                token = torch.where(own, guess, token)
            att = torch.softmax((memory @ self.query(h)[:, :, None])[:, :, 0] * HID ** -0.5, 1)
            h = self.cell(torch.cat([self.emb(token), (att[:, :, None] * memory).sum(1)], 1), h)
            z = self.out(h)
            guess = z.detach().argmax(1)
            result.append(z)
        return torch.stack(result, 1)


model = Adder()
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.02)
order = []
for step in range(1, N_STEPS + 1):
    if len(order) < BATCH:
        order = torch.randperm(len(table)).tolist()
    pick, order = order[:BATCH], order[BATCH:]
    q, y = QUESTIONS[pick], ANSWERS[pick]
    x = torch.cat([torch.full((BATCH, 1), IDX["^"]), y[:, :-1]], 1)
    z = model(q, x, p_own=0.3 * step / N_STEPS)
    loss = F.nll_loss(F.log_softmax(z, -1).flatten(0, 1), y.flatten(), ignore_index=0)
    for g in optimizer.param_groups:
        g["lr"] = LR * max(0.02, 1 - step / N_STEPS)
    model.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 110 == 0:
        print(f"{step:5d} loss {loss.item():.4f}")
