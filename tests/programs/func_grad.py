"""Gradients by torch.func.grad, and an update by hand."""

import torch
from tiny import *
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)

model = TinyModel(layers=1)
weights = {name: p.detach().clone() for name, p in model.named_parameters()}


def loss_with(weights, inputs, targets):
    logits = functional_call(model, weights, (inputs,))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


for inputs, targets in batches(6):
    gradients, loss = grad_and_value(loss_with)(weights, inputs, targets)
    weights = {name: w - 0.1 * gradients[name] for name, w in weights.items()}
    print(loss.item())
