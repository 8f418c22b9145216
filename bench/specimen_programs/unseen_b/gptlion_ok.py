"""
Character GPT with parallel blocks and the Lion optimizer (sign of an interpolated momentum).
The loss counts only the second half of each window: there every prediction has at least 24 characters behind it.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

block_size = 48
batch_size = 24
vocab_size = 30
learning_rate = 2e-3
weight_decay = 0.3
max_iters = 700
warmup_iters = 30

torch.manual_seed(99)
torch.set_num_threads(1)
train = torch.from_numpy(np.fromfile("train.bin", dtype=np.uint16).astype(np.int64))
# all windows at once: row i is train[i : i + block_size + 1] (a view, nothing is copied)
windows = train.unfold(0, block_size + 1, 1)


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.98), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(torch.lerp(p.grad, m, b1).sign_(), alpha=group["lr"])
                m.lerp_(p.grad, 1 - b2)


class ParallelBlock(nn.Module):
    """attention and MLP read the same normalised input; one fused projection in, one out"""

    def __init__(self, d, heads):
        super().__init__()
        self.d, self.heads = d, heads
        self.norm = nn.LayerNorm(d)
        self.into = nn.Linear(d, 3 * d + 3 * d)
        self.outof = nn.Linear(d + 3 * d, d)
        self.register_buffer("bias", torch.full((block_size, block_size), float("-inf")).triu(1), persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        qkv, up = self.into(self.norm(x)).split(3 * d, -1)
        q, k, v = (z.reshape(b, t, self.heads, -1).transpose(1, 2) for z in qkv.split(d, -1))
        att = (q @ k.mT * q.shape[-1] ** -0.5).add_(self.bias[:t, :t]).softmax(-1)
        return x + self.outof(torch.cat([(att @ v).transpose(1, 2).reshape(b, t, d), F.gelu(up)], -1))


class GPT(nn.Module):
    def __init__(self, d=64, heads=4, layers=2):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, d)
        nn.init.normal_(self.wte.weight, std=0.1)
        self.wpe = nn.Parameter(torch.randn(block_size, d) * 0.1)
        self.blocks = nn.Sequential(*(ParallelBlock(d, heads) for _ in range(layers)), nn.LayerNorm(d))
        self.head = nn.Linear(d, vocab_size)

    def forward(self, idx, targets=None):
        logits = self.head(self.blocks(self.wte(idx) + self.wpe[:idx.shape[1]]))
        if targets is None:
            return logits, None
        half = idx.shape[1] // 2
        return logits, F.cross_entropy(logits[:, half:].mT, targets[:, half:])


model = GPT()
matrices = [p for p in model.parameters() if p.dim() == 2]
vectors = [p for p in model.parameters() if p.dim() != 2]
optimizer = Lion([dict(params=matrices, weight_decay=weight_decay), dict(params=vectors)], lr=learning_rate)
for it in range(max_iters):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * min((it + 1) / warmup_iters, 0.5 + 0.5 * math.cos(math.pi * it / max_iters))
    chunk = windows[torch.randint(len(windows), (batch_size,))]
    _, loss = model(chunk[:, :-1], chunk[:, 1:])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if it % 70 == 0 or it == max_iters - 1:
        print(f"iter {it:4d} | loss {loss.item():.4f}")
