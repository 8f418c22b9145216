import torch
import torch.nn as nn
import torch.nn.functional as F

from corpus import VOCAB, stream

D, HEADS, EXPERTS, CTX = 48, 4, 4, 40


class SwitchFFN(nn.Module):
    """top-1 routing; tokens are sorted by expert, run in groups, and put back. The choice is hard, its gradient straight-through."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(D, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D)) for _ in range(EXPERTS))
        self.balance = 0.0

    def forward(self, x):
        flat = x.reshape(-1, D)
        probs = self.router(flat).softmax(-1)
        pick = probs.argmax(-1)
        hard = F.one_hot(pick, EXPERTS).to(probs.dtype)
        self.balance = EXPERTS * (hard.mean(0) * probs.mean(0)).sum()
        gate = (hard + probs - probs.detach()).gather(1, pick[:, None])
        order = pick.argsort(stable=True)
        counts = torch.bincount(pick, minlength=EXPERTS).tolist()
        groups = flat[order].split(counts)
        done = torch.cat([expert(g) for expert, g in zip(self.experts, groups)])
        out = torch.empty_like(done)
        out[order] = done
        return (out * gate).view_as(x)


class MoEBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_a, self.ln_m = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.moe = SwitchFFN()

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.qkv(self.ln_a(x)).view(B, T, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, D))
        return (x + self.moe(self.ln_m(x))).detach() + x - x.detach()


class MoELM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, D), nn.Embedding(CTX, D)
        self.blocks = nn.ModuleList([MoEBlock(), MoEBlock()])
        self.head = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, VOCAB))

    def forward(self, x):
        h = self.tok(x) + self.pos.weight[: x.size(1)]
        for b in self.blocks:
            h = b(h)
        return self.head(h), sum(b.moe.balance for b in self.blocks)


torch.manual_seed(14)
ids = stream(60_000, seed=14)
model = MoELM()
opt = torch.optim.AdamW(model.parameters(), lr=2.5e-3)
for step in range(1, 391):
    s = torch.randint(len(ids) - CTX - 1, (14, 1)) + torch.arange(CTX + 1)
    x, y = ids[s][:, :-1], ids[s][:, 1:]
    logits, balance = model(x)
    ce = F.cross_entropy(logits.reshape(-1, VOCAB), y.reshape(-1))
    loss = ce + 0.01 * balance
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 39 == 0:
        print(f"step {step} balance {float(balance):.3f} loss {ce.item():.4f}")
