"""All of a step in one compiled function: Python runs what cannot be compiled."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


@torch.compile(backend="aot_eager")
def step(inputs, targets):
    loss = loss_of(model, inputs, targets)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


for inputs, targets in batches(6):
    print(step(inputs, targets))
