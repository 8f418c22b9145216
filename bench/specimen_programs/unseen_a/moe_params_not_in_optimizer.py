"""Character model with a small mixture of experts (top 2 of 4), Noam learning rate."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

import talk


@dataclass
class C:
    block: int = 48
    batch: int = 12
    steps: int = 640
    d: int = 64
    heads: int = 4
    layers: int = 2
    experts: int = 4
    top: int = 2
    factor: float = 0.5
    warmup: int = 60
    balance: float = 0.01
    std: float = 0.06


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w1, self.w2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return self.w2(F.relu(self.w1(x)).square())


class Mixture(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.top = c.top
        self.router = nn.Linear(c.d, c.experts, bias=False)
        self.experts = tuple(Expert(c.d) for _ in range(c.experts))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        p = self.router(flat).softmax(-1)
        w, which = p.topk(self.top, dim=-1)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for k, expert in enumerate(self.experts):
            row, slot = (which == k).nonzero(as_tuple=True)
            if len(row):
                out.index_add_(0, row, expert(flat[row]) * w[row, slot, None])
        share = F.one_hot(which, p.shape[-1]).float().mean((0, 1))
        self.penalty = p.shape[-1] * (share * p.mean(0)).sum()
        return out.view_as(x)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.n1, self.n2 = nn.LayerNorm(c.d), nn.LayerNorm(c.d)
        self.qkv, self.proj = nn.Linear(c.d, 3 * c.d), nn.Linear(c.d, c.d)
        self.mix = Mixture(c)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, D))
        return x + self.mix(self.n2(x))


class MoE(nn.Module):
    def __init__(self, vocab, c):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, c.d), nn.Embedding(c.block, c.d)
        self.layers = nn.ModuleList([Layer(c) for _ in range(c.layers)])
        self.norm, self.head = nn.LayerNorm(c.d), nn.Linear(c.d, vocab)
        self.init(c)

    def init(self, c):
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, 0.0, c.std)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)), sum(layer.mix.penalty for layer in self.layers)


def noam(c):
    return lambda s: c.factor * c.d ** -0.5 * min((s + 1) ** -0.5, (s + 1) * c.warmup ** -1.5)


c = C()
torch.manual_seed(23)
text = talk.story(220_000, seed=8)
letters = sorted(set(text))
stoi = {ch: i for i, ch in enumerate(letters)}
data = torch.tensor([stoi[ch] for ch in text])

model = MoE(len(letters), c)
opt = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
sched = torch.optim.lr_scheduler.LambdaLR(opt, noam(c))

for step in range(c.steps):
    at = torch.randint(len(data) - c.block - 1, (c.batch,)).tolist()
    x = torch.stack([data[i:i + c.block] for i in at])
    y = torch.stack([data[i + 1:i + 1 + c.block] for i in at])
    logits, penalty = model(x)
    ce = F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))
    (ce + c.balance * penalty).backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    sched.step()
    if step % 50 == 0 or step == c.steps - 1:
        print(f"step {step:4d}  ce {ce.item():.3f}  balance {penalty.item():.2f}")
