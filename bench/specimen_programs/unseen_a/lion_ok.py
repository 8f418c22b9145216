"""Recurrent trunk, soft mixture of small experts, sign optimizer written at home."""
import torch
from torch import nn
import torch.nn.functional as F
import talk


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.98), weight_decay=0.02):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * torch.sign(m * b1 + p.grad * (1 - b1)))
                m.mul_(b2).add_(p.grad, alpha=1 - b2)
        return loss


class SoftExperts(nn.Module):
    """all experts at once, as two batched products"""

    def __init__(self, d, n, inner):
        super().__init__()
        self.gate = nn.Linear(d, n)
        self.up = nn.Parameter(torch.randn(n, d, inner) / d ** 0.5)
        self.down = nn.Parameter(torch.randn(n, inner, d) / inner ** 0.5 / 2)

    def forward(self, x):
        share = self.gate(x).softmax(-1)
        inner = torch.einsum("btd,ndi->btni", x, self.up).relu()
        return torch.einsum("btni,nid,btn->btd", inner, self.down, share)


class Model(nn.Module):
    def __init__(self, v, d=80):
        super().__init__()
        self.emb = nn.Embedding(v, d)
        self.trunk = nn.GRU(d, d, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.experts = SoftExperts(d, 4, 40)
        self.head = nn.Linear(d, v)

    def forward(self, ids):
        h, _ = self.trunk(self.emb(ids))
        h = h + self.experts(self.norm(h))
        return F.log_softmax(self.head(h), dim=-1)


torch.manual_seed(6)
text = talk.story(150_000, seed=33)
stoi = {c: i for i, c in enumerate(sorted(set(text)))}
data = torch.tensor([stoi[c] for c in text])
model = Model(len(stoi))
opt = Lion(model.parameters(), lr=1.3e-3)
STEPS = 520


def closure():
    at = torch.randint(len(data) - 49, (16, 1)) + torch.arange(49)
    rows = data[at]
    opt.zero_grad()
    loss = F.cross_entropy(model(rows[:, :-1]).transpose(1, 2), rows[:, 1:])
    loss.backward()
    return loss.detach()


for k in range(STEPS):
    opt.param_groups[0]["lr"] *= 1.0 if k < STEPS // 2 else 0.99
    loss = opt.step(closure)
    if k % 65 == 0 or k == STEPS - 1:
        print(f"{k:4d} {loss.item():.3f}")
