"""Distillation in two passes over a fixed pool of windows.

Pass 1 asks the trained teacher once for every window and keeps its 8 likeliest characters at each place, as half precision.
Pass 2 trains the student on these tables only; it never sees the text's own next character.
"""
import numpy as np
import torch
import torch.nn as nn

from talk import ALPHABET, story

LENGTH = 40
POOL = 2400
KEEP = 8


class GRUModel(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.table = nn.Embedding(vocab, width // 2)
        self.cell = nn.GRU(width // 2, width, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        return self.head(self.cell(self.table(ids))[0])


def sweep(n, size, rng):
    while True:
        order = rng.permutation(n)
        for i in range(0, n - size + 1, size):
            yield torch.from_numpy(order[i : i + size])


class Rate:
    """warm up, stay, then go down to zero over the last third"""

    def __init__(self, opt, peak, steps):
        self.opt, self.peak, self.steps, self.n = opt, peak, steps, 0

    def __enter__(self):
        self.n += 1
        f = min(1.0, self.n / 30, max(0.01, 3 * (1 - self.n / self.steps)))
        for g in self.opt.param_groups:
            g["lr"] = self.peak * f
        self.opt.zero_grad()

    def __exit__(self, *error):
        self.opt.step()


def train_teacher(win, steps=350):
    teacher = GRUModel(len(ALPHABET), 128)
    opt = torch.optim.Adam(teacher.parameters())
    rate = Rate(opt, 6e-3, steps)
    for step, rows in zip(range(steps), sweep(POOL, 24, np.random.default_rng(0))):
        with rate:
            loss = nn.functional.cross_entropy(teacher(win[rows, :-1]).mT, win[rows, 1:])
            loss.backward()
            nn.utils.clip_grad_norm_(teacher.parameters(), 1.0)
        if step % 50 == 0:
            print("teacher", step, round(loss.item(), 3))
    return teacher


@torch.inference_mode()
def ask(teacher, win):
    teacher.eval()
    p = torch.cat([teacher(part[:, :-1]).softmax(-1) for part in win.split(200)])
    p, idx = p.topk(KEEP, dim=-1)
    return (p / p.sum(-1, keepdim=True)).half(), idx.to(torch.int16)


def train_student(win, table, steps=700):
    prob, idx = table
    student = GRUModel(len(ALPHABET), 64)
    opt = torch.optim.Adam(student.parameters())
    rate = Rate(opt, 1e-2, steps)
    for step, rows in zip(range(steps), sweep(POOL, 24, np.random.default_rng(1))):
        with rate:
            logp = student(win[rows, :-1]).log_softmax(-1)
            loss = -(prob[rows].float() * logp.gather(-1, idx[rows].long())).sum(-1).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        if step % 50 == 0 or step == steps - 1:
            print("student", step, round(loss.item(), 3))
    return student


if __name__ == "__main__":
    torch.manual_seed(5)
    data = torch.tensor([ALPHABET.index(c) for c in story(4000, seed=12)])
    at = torch.from_numpy(np.random.default_rng(2).integers(0, len(data) - LENGTH - 1, POOL))
    win = data[at[:, None] + torch.arange(LENGTH + 1)]
    table = ask(train_teacher(win), win)
    model = train_student(win, table)
