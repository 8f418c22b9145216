"""bfloat16 autocast and nothing else."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for inputs, targets in batches(8):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(model, inputs, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
