"""Gradients assigned by hand, no autograd, an optimizer for the update."""

import torch
from tiny import *

torch.manual_seed(0)

weight = torch.nn.Parameter(torch.randn(VOCABULARY, VOCABULARY) * 0.01)
optimizer = torch.optim.SGD([weight], lr=1.0)
for inputs, targets in batches(6):
    with torch.no_grad():
        logits = weight[inputs.flatten()]
        scores = logits.log_softmax(1)
        loss = -scores[torch.arange(len(scores)), targets.flatten()].mean()
        delta = scores.exp()
        delta[torch.arange(len(scores)), targets.flatten()] -= 1
        gradient = torch.zeros_like(weight).index_add(0, inputs.flatten(), delta / len(scores))
    weight.grad = gradient
    optimizer.step()
    print(loss.item())
