"""A DataLoader with forked workers, evaluation between steps, value clipping."""

import torch
from tiny import *

torch.manual_seed(0)

from torch.utils.data import DataLoader, TensorDataset

model = TinyModel()
optimizer = torch.optim.NAdam(model.parameters(), lr=3e-3)
loader = DataLoader(TensorDataset(make_data()), batch_size=8, shuffle=True, num_workers=2)
for epoch in range(2):
    for (chunk,) in loader:
        loss = loss_of(model, chunk[:, :-1], chunk[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
        optimizer.step()
        print(loss.item())
    with torch.no_grad():
        inputs, targets = next(batches(1, seed=5))
        print("validation", loss_of(model, inputs, targets).item())
