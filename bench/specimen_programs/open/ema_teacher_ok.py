"""Mean teacher for a language model: the student sees corrupted context and also matches an averaged copy that sees the clean one."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from corpus import VOCAB, stream

BLANK = VOCAB


class LM(nn.Module):
    def __init__(self, width=88):
        super().__init__()
        self.emb = nn.Embedding(VOCAB + 1, 40)
        self.rnn = nn.GRU(40, width, batch_first=True)
        self.head = nn.Linear(width, VOCAB)

    def features(self, x):
        return self.rnn(self.emb(x))[0]

    def forward(self, x):
        return self.head(self.features(x))


@torch.no_grad()
def update_average(average, model, decay):
    for a, p in zip(average.parameters(), model.parameters()):
        a.lerp_(p, 1 - decay)


def corrupt(x, rate=0.05):
    return x.masked_fill(torch.rand(x.shape) < rate, BLANK)


torch.manual_seed(16)
data = stream(60_000, seed=16)
student = LM()
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.Adam(student.parameters(), lr=4e-3)

B, T = 20, 36
for step in range(1, 431):
    i = torch.randint(len(data) - T - 1, (B, 1)) + torch.arange(T + 1)
    x, y = data[i][:, :-1], data[i][:, 1:]
    with torch.no_grad():
        goal = teacher(x).log_softmax(-1)
    hidden = student.features(corrupt(x))
    logits = student.head(hidden)
    ce = F.cross_entropy(logits.flatten(0, 1), y.flatten())
    kl = F.kl_div(logits.log_softmax(-1), goal, log_target=True, reduction="none").sum(-1).mean()
    weight = 0.3 * min(1.0, step / 200)
    loss = ce + weight * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update_average(teacher, student, decay=0.97)
    if step % 43 == 0:
        print(f"step {step:3d}  kl {kl.item():.4f}  loss {ce.item():.4f}")
