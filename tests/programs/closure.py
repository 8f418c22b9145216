"""LBFGS, which runs the closure several times in one step."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel(layers=1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
inputs, targets = next(batches(1))


def closure():
    optimizer.zero_grad()
    loss = loss_of(model, inputs, targets)
    loss.backward()
    return loss


for _ in range(4):
    print(optimizer.step(closure).item())
