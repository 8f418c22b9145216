"""Gradients by torch.func.grad, given to an optimizer of torch."""

import torch
from tiny import *
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)

model = TinyModel(layers=1)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


def loss_with(weights, inputs, targets):
    logits = functional_call(model, weights, (inputs,))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


for inputs, targets in batches(6):
    weights = {name: p.detach() for name, p in model.named_parameters()}
    gradients, loss = grad_and_value(loss_with)(weights, inputs, targets)
    for name, parameter in model.named_parameters():
        parameter.grad = gradients[name]
    optimizer.step()
    print(loss.item())
