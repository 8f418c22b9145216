"""Three micro-batches to a step, the last ones partly masked."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for k, (inputs, targets) in enumerate(batches(18)):
    targets = targets.clone()
    targets[: k % 3, 5:] = -100
    loss = loss_of(model, inputs, targets) / 3
    loss.backward()
    print(float(loss))
    if k % 3 == 2:
        optimizer.step()
        optimizer.zero_grad()
