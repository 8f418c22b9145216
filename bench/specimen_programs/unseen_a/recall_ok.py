"""How does the sentence end?  Everything but the last word is read at once (both directions), one word is guessed."""
import torch
from torch import nn
from talk import sentences, words

LENGTH = 22
vocab = {w: i + 1 for i, w in enumerate(words())}      # 0: nothing here


def table(n, seed):
    x = torch.zeros(n, LENGTH, dtype=torch.long)
    y = torch.zeros(n, dtype=torch.long)
    for k, s in enumerate(sentences(n, seed)):
        ids = [vocab[w] for w in s.split()[:-1]]        # without the full stop
        x[k, LENGTH - len(ids) + 1:] = torch.tensor(ids[:-1])
        y[k] = ids[-1]
    return x, y


pool = table(6000, 3)
spare = table(3000, 4)


def draw(n, g=None):
    x, y = pool if g is None else spare
    k = torch.randint(len(y), (n,), generator=g)
    return x[k], y[k]


class Ending(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.words = nn.Embedding(len(vocab) + 1, d, padding_idx=0)
        self.place = nn.Parameter(torch.randn(LENGTH, 1, d) * 0.1)
        self.ask = nn.Parameter(torch.randn(1, 1, d) * 0.1)
        self.one = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, norm_first=True)
        self.two = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, norm_first=True)
        self.answer = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, len(vocab) + 1))

    def forward(self, ids):
        seq = self.words(ids).transpose(0, 1) * 7 ** 0.5 + self.place
        seq = torch.cat([seq, self.ask.expand(1, ids.shape[0], -1)])
        empty = torch.cat([ids == 0, torch.zeros_like(ids[:, :1], dtype=torch.bool)], 1)
        for layer in (self.one, self.two):
            seq = layer(seq, src_key_padding_mask=empty)
        return self.answer(seq[-1])


torch.manual_seed(8)
model = Ending()
params = [p for p in model.parameters()]
opt = torch.optim.AdamW(params, lr=4e-3, weight_decay=0.01)
hot = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, s / 40 + 0.02) * (1 - s / 610))
criterion = nn.CrossEntropyLoss()
for it in range(600):
    x, y = draw(32)
    loss = criterion(model(x), y)
    # only the gradients, no .backward()
    for p, g in zip(params, torch.autograd.grad(loss, params)):
        p.grad = g
    opt.step()
    hot.step()
    if it % 100 == 0 or it == 599:
        hit = (model(x).argmax(1) == y).float().mean()
        print(f"it {it} loss {loss.item():.3f} hits {hit:.2f}")
