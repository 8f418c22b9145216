"""A layer that computes in numpy, with a right backward."""

import numpy as np
import torch
from tiny import *

torch.manual_seed(0)


class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.from_numpy(np.tanh(x.detach().numpy()))
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, gradient):
        (out,) = ctx.saved_tensors
        return gradient * (1 - out * out)


model = TinyModel(layers=1)
model.drop.forward = Tanh.apply
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for inputs, targets in batches(6):
    loss = loss_of(model, inputs, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
