"""An optimizer of the program's own, compiled as a whole: no hook can be called in its step."""

import torch
from tiny import *

torch.manual_seed(0)


class Signs(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(group["lr"] * parameter.grad.sign())


model = TinyModel()
optimizer = Signs(model.parameters(), lr=1e-3)
update = torch.compile(optimizer.step, backend="aot_eager", fullgraph=True)
for inputs, targets in batches(8):
    loss = loss_of(model, inputs, targets)
    optimizer.zero_grad()
    loss.backward()
    update()
    print(loss.item())
