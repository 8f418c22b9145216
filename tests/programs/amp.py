"""bfloat16 autocast with a GradScaler, whose first step overflows."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=4)
for k, (inputs, targets) in enumerate(batches(10)):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(model, inputs, targets) * (1e9 if k == 0 else 1)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
