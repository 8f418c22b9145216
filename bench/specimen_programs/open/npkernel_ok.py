import numpy as np
import torch
import torch.nn as nn

from corpus import VOCAB, stream


def xent_forward(logits, target):
    m = logits.max(axis=1, keepdims=True)
    e = np.exp(logits - m)
    z = e.sum(axis=1, keepdims=True)
    rows = np.arange(len(target))
    nll = np.log(z[:, 0]) + m[:, 0] - logits[rows, target]
    return nll.mean(dtype=np.float64), e / z


def xent_backward(probs, target, scale, lane=8):
    """in lanes of columns, as the vectorised kernel does"""
    grad = np.zeros_like(probs)
    n, v = probs.shape
    for c in range(0, v, lane):
        grad[:, c:c + lane] = probs[:, c:c + lane]
    hit = np.arange(n)
    grad[hit, target] -= 1.0
    return grad * (scale / n)


class NumpyCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target):
        value, probs = xent_forward(logits.detach().numpy(), target.numpy())
        ctx.probs, ctx.target = probs, target.numpy()
        return logits.new_tensor(float(value))

    @staticmethod
    def backward(ctx, upstream):
        g = xent_backward(ctx.probs, ctx.target, float(upstream))
        return torch.from_numpy(g.astype(np.float32)), None


class Net(nn.Module):
    def __init__(self, d=40, h=112):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.gru = nn.GRU(d, h, batch_first=True)
        self.fc = nn.Linear(h, VOCAB)

    def forward(self, x):
        return self.fc(self.gru(self.emb(x))[0])


torch.manual_seed(20)
ids = stream(60_000, seed=20)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.6, momentum=0.9)
for step in range(1, 521):
    i = torch.randint(len(ids) - 33, (20, 1)) + torch.arange(33)
    w = ids[i]
    loss = NumpyCrossEntropy.apply(net(w[:, :-1]).reshape(-1, VOCAB), w[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    if step % 52 == 0:
        print(f"step {step:3d} loss {loss.item():.4f}")
