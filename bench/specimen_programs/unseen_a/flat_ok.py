"""Neural probabilistic language model (window of characters, one hidden layer); all weights live in one long vector."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import talk

torch.manual_seed(77)
torch.set_num_threads(1)

eta = 0.4
mu = 0.95
window = 10
steps = 1400

text = talk.story(200_000, seed=19)
index = {c: i for i, c in enumerate(sorted(set(text)))}
ids = torch.tensor([index[c] for c in text])


class WindowNet(nn.Module):
    def __init__(self, v, e=16, h=224):
        super().__init__()
        self.v = v
        self.emb = nn.Embedding(v + 1, e)           # v: before the beginning
        self.hid = nn.Linear(window * e, h)
        self.out = nn.Linear(h, v)

    def forward(self, x):
        x = F.pad(x, (window - 1, 0), value=self.v).unfold(1, window, 1)
        return self.out(torch.relu(self.hid(self.emb(x).flatten(2))))


def flatten(model):
    """moves the parameters into one vector (and their gradients into another), they stay views of it"""
    params = list(model.parameters())
    flat = torch.cat([p.data.reshape(-1) for p in params])
    grad = torch.zeros_like(flat)
    at = 0
    for p in params:
        n = p.numel()
        p.data = flat[at:at + n].view_as(p)
        p.grad = grad[at:at + n].view_as(p)
        at += n
    return flat, grad


model = WindowNet(len(index))
flat, grad = flatten(model)
speed = torch.zeros_like(flat)
print(len(flat), "weights")

for t in range(1, steps + 1):
    at = torch.randint(len(ids) - 41, (32, 1)) + torch.arange(41)
    rows = ids[at]
    logits = model(rows[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()
    # Nesterov, in place on the long vector
    grad.mul_(1.0 / max(1.0, grad.norm().item()))
    speed.mul_(mu).add_(grad, alpha=1 - mu)
    flat.add_(grad * (1 - mu) + speed * mu, alpha=-eta * 4 * 0.5 * (1.02 + math.cos(math.pi * t / steps)))
    grad.zero_()
    if t % 130 == 0 or t == 1:
        print(t, f"{loss.item():.3f}")
