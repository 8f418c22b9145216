"""The update written out, through .data, every second micro-batch."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel()
for k, (inputs, targets) in enumerate(batches(12)):
    loss = loss_of(model, inputs, targets)
    loss.backward()
    print(loss.item())
    if k % 2:
        for p in model.parameters():
            p.data = p.data - 0.1 * p.grad.data
            p.grad.zero_()
