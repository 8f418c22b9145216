"""A model that has to be compiled as a whole."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel()
fast = torch.compile(model, backend="aot_eager", fullgraph=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for inputs, targets in batches(6):
    loss = loss_of(fast, inputs, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
