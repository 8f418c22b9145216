"""The update written out, under no_grad."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel()
for inputs, targets in batches(6):
    loss = loss_of(model, inputs, targets)
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad = None
    print(loss.item())
