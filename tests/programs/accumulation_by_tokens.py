"""Micro-batches with different numbers of targets, each weighed by how many it has."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
chunks = [(inputs, targets.clone()) for inputs, targets in batches(18)]
for k in range(0, 18, 3):
    step = chunks[k : k + 3]
    for row, (_, targets) in enumerate(step):
        targets[:row, 5:] = -100
    count = sum((targets != -100).sum() for _, targets in step)
    for inputs, targets in step:
        logits = model(inputs).flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten(), reduction="sum") / count
        loss.backward()
        print(loss.item())
    optimizer.step()
    optimizer.zero_grad()
