"""A loss that has the size of its own gradient in it."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel(layers=1)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for inputs, targets in batches(6):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        loss = loss_of(model, inputs, targets)
        slopes = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        penalty = sum(slope.square().sum() for slope in slopes)
        optimizer.zero_grad()
        (loss + 0.1 * penalty).backward()
    optimizer.step()
    print(loss.item())
