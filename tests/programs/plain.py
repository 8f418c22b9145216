"""The plain loop, with dropout, clipping and a schedule."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel(dropout=0.1)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)
for inputs, targets in batches(12):
    loss = loss_of(model, inputs, targets)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(loss.item())
