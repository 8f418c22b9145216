"""
Low-rank adapters by hand. First a base model is trained on everyday sentences, then it is frozen, and small
adapters move it to a telegraphic dialect (other word order, other spelling).
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import talk

CTX = 48
CHARS = "\n ,.-" + "abcdefghijklmnopqrstuvwxyz"


def ids_of(txt):
    return torch.tensor([CHARS.index(c) for c in txt])


def dialect(n, seed):
    out = []
    for s in talk.sentences(n, seed):
        w = [x for x in s.split() if x not in ("the", "a", "and")]
        w = [x[:-1] + "o" if x.endswith(("d", "s")) else x.replace("ee", "ii") for x in w[:-1]]
        out.append("-".join(reversed(w)))
    return "\n".join(out) + "\n"


class LoRALinear(nn.Module):
    def __init__(self, base, r=8, alpha=16):
        super().__init__()
        self.base = base
        self.scaling = alpha / r
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        self.reset()

    def reset(self):
        with torch.no_grad():
            nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
            self.lora_B.zero_()

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.t() @ self.lora_B.t()) * self.scaling


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.fc1 = nn.Linear(d, 4 * d)
        self.fc2 = nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(y)
        return x + self.fc2(F.gelu(self.fc1(self.n2(x))))


class LM(nn.Module):
    def __init__(self, d=64, layers=2, heads=4):
        super().__init__()
        self.tok = nn.Embedding(len(CHARS), d)
        self.pos = nn.Embedding(CTX, d)
        nn.init.normal_(self.tok.weight, std=0.1)
        nn.init.normal_(self.pos.weight, std=0.1)
        self.layers = nn.ModuleList([Layer(d, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, len(CHARS))

    def forward(self, x):
        h = self.tok(x) + self.pos.weight[:x.shape[1]]
        for l in self.layers:
            h = l(h)
        return self.out(self.norm(h))


def add_adapters(model):
    for p in model.parameters():
        p.requires_grad_(False)
    for layer in model.layers:
        for name in ("qkv", "proj", "fc1", "fc2"):
            setattr(layer, name, LoRALinear(getattr(layer, name)))
    model.out = LoRALinear(model.out)
    return model


def fit(model, opt, data, steps, title, seed):
    gen = torch.Generator().manual_seed(seed)
    peak = [g["lr"] for g in opt.param_groups]
    for step in range(steps):
        for g, p in zip(opt.param_groups, peak):
            g["lr"] = p * min(1, (step + 1) / 25) * (1 - 0.9 * step / steps)
        i = torch.randint(len(data) - CTX - 1, (12,), generator=gen)
        chunk = torch.stack([data[k:k + CTX + 1] for k in i.tolist()])
        loss = F.cross_entropy(model(chunk[:, :-1]).flatten(0, 1), chunk[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 75 == 0 or step == steps - 1:
            print(f"[{title}] {step:4d} {loss.item():.3f}")


BASE_LR = 3e-3
LORA_LR = 1e-2


def main():
    torch.manual_seed(5)
    model = LM()
    fit(model, torch.optim.AdamW(model.parameters(), lr=BASE_LR), ids_of(talk.text(3000, 41)), 400, "base", 0)

    add_adapters(model)
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LORA_LR, weight_decay=0.0)
    fit(model, opt, ids_of(dialect(3000, 42)), 500, "adapt", 1)
    return model


if __name__ == "__main__":
    model = main()
