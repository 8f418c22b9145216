# Causal dilated convolutions over characters, WaveNet fashion: everything stays (batch, channels, time).
import torch
from torch import nn
from talk import story

torch.manual_seed(11)
B, T, C = 12, 96, 40

text = story(200_000, seed=5)
alphabet = sorted(set(text))
stoi = {c: i for i, c in enumerate(alphabet)}
V = len(alphabet)
data = torch.tensor([stoi[c] for c in text])


class CausalConv(nn.Conv1d):
    def __init__(self, cin, cout, k, dilation=1):
        self.extra = dilation * (k - 1)
        super().__init__(cin, cout, k, dilation=dilation, padding=dilation * (k - 1))

    def forward(self, x):
        y = super().forward(x)
        cut = self.extra // 2
        return y[..., cut:cut + x.size(-1)]


class Layer(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.gate = CausalConv(C, 2 * C, 2, dilation)
        self.res = nn.Conv1d(C, C, 1)
        self.skip = nn.Conv1d(C, C, 1)

    def forward(self, x):
        f, g = self.gate(x).chunk(2, dim=1)
        z = torch.tanh(f) * torch.sigmoid(g)
        return x + self.res(z), self.skip(z)


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, C)
        self.first = CausalConv(C, C, 3)
        self.layers = nn.ModuleList([Layer(2 ** i) for i in range(6)])
        self.top = nn.Sequential(nn.ReLU(), nn.Conv1d(C, 2 * C, 1), nn.ReLU(), nn.Conv1d(2 * C, V, 1))

    def forward(self, ids):
        x = self.first(self.emb(ids).transpose(1, 2))
        total = 0
        for layer in self.layers:
            x, s = layer(x)
            total = total + s
        return self.top(total)          # (B, V, T)


def batch():
    at = torch.randint(len(data) - T - 1, (B, 1)) + torch.arange(T + 1)
    rows = data[at]
    return rows[:, :-1], rows[:, 1:]


model = WaveNet()
logp = nn.LogSoftmax(dim=1)
nll = nn.NLLLoss()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
N = 600
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=[g["lr"] for g in opt.param_groups], total_steps=N, pct_start=0.1)

for it in range(1, N + 1):
    x, y = batch()
    loss = nll(logp(model(x)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if it % 60 == 0 or it == 1:
        print("iteration %4d   nats per character %.4f" % (it, loss.item()))
