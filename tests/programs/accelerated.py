"""Hugging Face Accelerate with accumulation."""

import torch
from accelerate import Accelerator
from tiny import TinyModel, loss_of, make_data
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = TinyModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
loader = DataLoader(TensorDataset(make_data()), batch_size=8, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for (chunk,) in loader:
    with accelerator.accumulate(model):
        loss = loss_of(model, chunk[:, :-1], chunk[:, 1:])
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())
