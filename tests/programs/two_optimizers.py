"""Two optimizers that share one backward, and one that has its own."""

import torch
from tiny import *

torch.manual_seed(0)

model = TinyModel()
probe = torch.nn.Linear(WIDTH, 2)
first = torch.optim.AdamW(model.blocks.parameters(), lr=3e-3)
rest = [p for n, p in model.named_parameters() if not n.startswith("blocks")]
second = torch.optim.SGD(rest, lr=0.1)
third = torch.optim.Adam(probe.parameters(), lr=1e-2)
for inputs, targets in batches(6):
    loss = loss_of(model, inputs, targets)
    extra = probe(model.tokens(inputs).detach()).square().mean()
    first.zero_grad(), second.zero_grad(), third.zero_grad()
    loss.backward()
    extra.backward()
    first.step(), second.step(), third.step()
    print(loss.item(), extra.item())
