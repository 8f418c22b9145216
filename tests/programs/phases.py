"""Several things are trained one after another, or in turn.

    python phases.py KIND [FAULTY [FAULT]]

In the phase of the number FAULTY, from 1, targets are two tokens ahead, or a student's rate is far
too high.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F

KIND = sys.argv[1]
FAULTY = int(sys.argv[2]) if len(sys.argv) > 2 else 0
FAULT = sys.argv[3] if len(sys.argv) > 3 else "ahead"
STEPS, VOCABULARY, LENGTH = 90, 16, 16

torch.manual_seed(0)
chances = torch.softmax(3 * torch.randn(VOCABULARY, VOCABULARY), -1)
text = [0]
for _ in range(3000):
    text.append(int(torch.multinomial(chances[text[-1]], 1)))
text = torch.tensor(text)


class Model(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, width)
        self.memory = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.memory(self.table(tokens))[0])


def step(model, optimizer, phase=1):
    ahead = 2 if phase == FAULTY and FAULT == "ahead" else 1
    starts = torch.randint(0, len(text) - LENGTH - 2, (8,))
    inputs = torch.stack([text[s : s + LENGTH] for s in starts])
    targets = torch.stack([text[s + ahead : s + ahead + LENGTH] for s in starts])
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())


def train(model, optimizer, phase=1, steps=STEPS):
    for _ in range(steps):
        step(model, optimizer, phase)


def adamw(model, rate=1e-2):
    return torch.optim.AdamW(model.parameters(), lr=rate)


model = Model()
if KIND == "teacher_then_student":
    train(model, adamw(model))
    student = Model(16)
    train(student, adamw(student, 3.0 if FAULT == "rate" else 1e-2), 2)
elif KIND == "pre_trained_then_tuned":
    train(model, adamw(model))
    train(model, adamw(model, 1e-3), 2)
elif KIND == "three_seeds":
    for seed in range(3):
        torch.manual_seed(seed)
        model = Model()
        train(model, adamw(model), 1 + seed, 60)
elif KIND == "warmed_up_by_another":
    train(model, torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9))
    train(model, adamw(model), 2)
elif KIND == "in_turn":
    other = Model(16)
    optimizers = adamw(model), adamw(other)
    for turn in range(2 * STEPS):
        step((model, other)[turn % 2], optimizers[turn % 2])
elif KIND == "made_anew_every_epoch":
    for _ in range(3):
        train(model, adamw(model), steps=40)
elif KIND == "unfrozen":
    model.table.requires_grad_(False)
    optimizer = adamw(model)
    train(model, optimizer)
    model.table.requires_grad_(True)
    train(model, optimizer)
else:
    raise SystemExit(f"no such kind: {KIND}")
