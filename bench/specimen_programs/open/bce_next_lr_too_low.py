import torch
import torch.nn as nn
import torch.nn.functional as F

import corpus

V, T, B = corpus.VOCAB, 36, 20


class RecurrentBits(nn.Module):
    """every vocabulary entry is a yes/no question: is it the next character?"""

    def __init__(self, d=40, h=96):
        super().__init__()
        self.e = nn.Embedding(V, d)
        self.r = nn.LSTM(d, h, batch_first=True)
        self.o = nn.Linear(h, V)
        nn.init.constant_(self.o.bias, -2.5)

    def forward(self, x):
        y, _ = self.r(self.e(x))
        return self.o(y)


def get_batch(ids, gen):
    i = torch.randint(len(ids) - T - 3, (B, 1), generator=gen)
    span = ids[i + torch.arange(T + 2)]
    return span[:, :T], span[:, 1:T + 1]


def bits_loss(scores, target):
    onehot = F.one_hot(target, V).to(scores.dtype)
    per = F.binary_cross_entropy_with_logits(scores, onehot, reduction="none")
    return per.sum(-1).mean()


gen = torch.Generator().manual_seed(12)
torch.manual_seed(12)
ids = corpus.stream(60_000, seed=12)
val_ids = corpus.stream(5_000, seed=13)
model = RecurrentBits()
lr = 4e-6
opt = torch.optim.Adam(model.parameters(), lr=lr)
for step in range(1, 501):
    x, y = get_batch(ids, gen)
    loss = bits_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    opt.step()
    if step % 100 == 0:
        model.eval()
        with torch.no_grad():
            vx, vy = get_batch(val_ids, gen)
            scores = model(vx)
            hit = (scores.argmax(-1) == vy).float().mean()
        model.train()
        print(f"step {step}: accuracy {hit:.3f} train loss {loss.item():.4f}")
