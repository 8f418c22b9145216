import torch
from torch import nn
import torch.nn.functional as F
import corpus


class SelectiveState(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.inp = nn.Linear(d, n)
        self.decay = nn.Linear(d, n)
        self.gate = nn.Linear(d, n)
        self.out = nn.Linear(n, d)
        nn.init.constant_(self.decay.bias, 1.5)

    def forward(self, x):
        u = self.inp(x)
        a = torch.sigmoid(self.decay(x))
        g = F.silu(self.gate(x))
        state = torch.zeros_like(u[:, 0])
        ys = []
        for t in range(x.shape[1]):
            state = torch.zeros_like(u[:, t])
            state = a[:, t] * state + (1 - a[:, t]) * u[:, t]
            ys.append(state)
        return self.out(torch.stack(ys, dim=1) * g)


class Rms(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.scale * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class SSMLM(nn.Module):
    def __init__(self, vocab, d=56, n=112, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.mixers = nn.ModuleList([SelectiveState(d, n) for _ in range(depth)])
        self.norms = nn.ModuleList([Rms(d) for _ in range(depth)])
        self.norm = Rms(d)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for norm, mixer in zip(self.norms, self.mixers):
            x = x + mixer(norm(x))
        return self.head(self.norm(x))


def train(model, ids, steps, batch=16, length=32, lr=5e-3):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for step in range(steps):
        starts = torch.randint(0, ids.numel() - length - 1, (batch,)).tolist()
        seq = torch.stack([ids[s:s + length + 1] for s in starts])
        logits = model(seq[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), seq[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (step + 1) % 40 == 0:
            print(f"{step + 1:4d}/{steps} loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(15)
    model = SSMLM(corpus.VOCAB)
    train(model, corpus.stream(60_000, seed=15), steps=400)
