"""Activation checkpointing of both kinds."""

import torch
from tiny import *

torch.manual_seed(0)

from torch.utils.checkpoint import checkpoint

model = TinyModel(dropout=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for k, (inputs, targets) in enumerate(batches(8)):
    x = model.tokens(inputs) + model.positions(torch.arange(CONTEXT))
    x = model.drop(x)
    for block in model.blocks:
        x = checkpoint(block, x, use_reentrant=k % 2 == 0)
    loss = F.cross_entropy(model.head(x).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss:.10f}")
