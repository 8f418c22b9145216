import io
import math

import torch
from torch import nn
from torch.nn import functional as F

import babble

V, T, D = len(babble.VOCAB), 30, 52


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj = nn.Linear(D, 3 * D)
        self.out_proj = nn.Linear(D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (z.reshape(b, t, 4, D // 4).transpose(1, 2) for z in self.in_proj(x).chunk(3, -1))
        s = (q @ k.transpose(2, 3)) / math.sqrt(D // 4)
        s = s.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        return self.out_proj((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, D))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, D), nn.Embedding(T, D)
        self.attn = nn.ModuleList([Attn(), Attn()])
        self.mlp = nn.ModuleList([nn.Sequential(nn.Linear(D, 3 * D), nn.GELU(), nn.Linear(3 * D, D)) for _ in range(2)])
        self.ln = nn.ModuleList([nn.LayerNorm(D) for _ in range(5)])
        self.head = nn.Linear(D, V)

    def forward(self, x):
        h = self.wte(x) + self.wpe.weight[:x.size(1)]
        for i in range(2):
            h = h + self.attn[i](self.ln[2 * i](h))
            h = h + self.mlp[i](self.ln[2 * i + 1](h))
        return self.head(self.ln[4](h))


def loop(model, opt, data, first, last):
    for n in range(first, last):
        i = torch.randint(len(data) - T - 1, (16, 1)) + torch.arange(T + 1)
        x, y = data[i][:, :-1], data[i][:, 1:]
        loss = F.cross_entropy(model(x).view(-1, V), y.reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if n % 40 == 39:
            print(f"iteration {n + 1} loss {loss.item():.4f}")


torch.manual_seed(190)
data = torch.from_numpy(babble.token_stream(50_000, 190))
model = LM()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
loop(model, opt, data, 0, 60)
disk = io.BytesIO()
torch.save(dict(weights=model.state_dict(), optimizer=opt.state_dict(), iteration=60), disk)
del model, opt

disk.seek(0)
saved = torch.load(disk)
model = LM()
model.load_state_dict(saved["weights"])
opt = torch.optim.Adam(model.parameters())
opt.load_state_dict(saved["optimizer"])
print("resumed at", saved["iteration"], "with rate", opt.param_groups[0]["lr"])
loop(model, opt, data, saved["iteration"], 440)
