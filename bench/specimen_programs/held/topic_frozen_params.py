import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_CLASS, N_WORDS, LEN = 5, 200, 20
master = np.random.default_rng(110)
TOPIC = master.dirichlet(np.full(N_WORDS, 0.15), size=N_CLASS)
BACK = master.dirichlet(np.full(N_WORDS, 1.0))


def documents(n, seed):
    """each text mixes topic words and background words; returns ids (0 is padding), lengths, topic"""
    r = np.random.default_rng(seed)
    y = r.integers(0, N_CLASS, n)
    x = np.zeros((n, LEN), dtype=np.int64)
    for i in range(n):
        m = r.integers(8, LEN + 1)
        topical = r.random(m) < 0.35
        words = np.where(topical, r.choice(N_WORDS, m, p=TOPIC[y[i]]), r.choice(N_WORDS, m, p=BACK))
        x[i, :m] = words + 1
    return torch.from_numpy(x), torch.from_numpy(y)


class BagOfEmbeddings(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.table = nn.Embedding(N_WORDS + 1, dim, padding_idx=0)
        nn.init.normal_(self.table.weight, std=0.05)
        self.hidden = nn.Linear(dim, dim)
        self.score = nn.Linear(dim, N_CLASS)

    def pool(self, x):
        keep = (x > 0).unsqueeze(-1)
        e = self.table(x) * keep
        return e.sum(dim=1) / keep.sum(dim=1)

    def forward(self, x):
        return self.score(F.relu(self.hidden(self.pool(x))))


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        out = model(x)
    model.train()
    return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


torch.manual_seed(110)
xtr, ytr = documents(12_000, 1)
xva, yva = documents(1_000, 2)
model = BagOfEmbeddings()
model.table.requires_grad_(False)
model.hidden.requires_grad_(False)
trainable = [p for p in model.parameters() if p.requires_grad]
opt = torch.optim.Adam(trainable, lr=2e-3)
it = 0
for epoch in range(10):
    for idx in torch.randperm(len(xtr)).split(64):
        loss = F.cross_entropy(model(xtr[idx]), ytr[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        it += 1
    vloss, acc = evaluate(model, xva, yva)
    print(f"epoch {epoch} it {it} val {vloss:.4f} acc {acc:.3f} loss {loss.item():.4f}")
