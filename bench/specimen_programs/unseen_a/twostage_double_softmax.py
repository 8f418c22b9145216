"""
Stage 1: word vectors (a word is guessed from its neighbours through a narrow code).
Stage 2: the vectors stay as they are; a GRU language model reads and writes through them.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import talk

torch.manual_seed(41)
CODE, HIDDEN, SPAN = 32, 128, 32
STAGE1_STEPS, STAGE2_STEPS = 250, 900
LM_LR = 6e-3

vocab = talk.words()
vocab_index = {w: i for i, w in enumerate(vocab)}
corpus = torch.tensor([vocab_index[w] for w in talk.story(300_000, seed=51).split()[:-1]])


# ---- stage 1 ----------------------------------------------------------------
class Neighbours(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(len(vocab), CODE)
        self.guess = nn.Linear(4 * CODE, len(vocab))

    def forward(self, around):
        return self.guess(self.codes(around).flatten(1))


def stage1():
    net = Neighbours()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    offsets = torch.tensor([-2, -1, 1, 2])
    for k in range(STAGE1_STEPS):
        at = torch.randint(2, len(corpus) - 2, (256,))
        loss = F.cross_entropy(net(corpus[at[:, None] + offsets]), corpus[at])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if k % 50 == 0:
            print("stage 1 step", k, "loss %.3f" % loss.item())
    table = net.codes.weight.detach().clone()
    return (table - table.mean(0)) / table.std(0)


# ---- stage 2 ----------------------------------------------------------------
class Writer(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)
        self.gru = nn.GRU(CODE, HIDDEN, batch_first=True)
        self.back = nn.Linear(HIDDEN, CODE)
        self.bias = nn.Parameter(torch.zeros(len(table)))

    def score(self, h):
        return F.softmax(h @ self.table.T + self.bias, dim=-1)

    def forward(self, ids):
        h, _ = self.gru(F.embedding(ids, self.table))
        return self.score(self.back(h))


def stage2(table):
    model = Writer(table)
    opt = torch.optim.Adam(model.parameters(), lr=LM_LR)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STAGE2_STEPS, eta_min=LM_LR / 20)
    for k in range(STAGE2_STEPS):
        at = torch.randint(0, len(corpus) - SPAN - 1, (16, 1)) + torch.arange(SPAN)
        logits = model(corpus[at])
        loss = F.cross_entropy(logits.flatten(0, 1), corpus[at + 1].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if k % 75 == 0 or k == STAGE2_STEPS - 1:
            print("stage 2 step", k, "loss %.3f" % loss.item())
    return model


model = stage2(stage1())
