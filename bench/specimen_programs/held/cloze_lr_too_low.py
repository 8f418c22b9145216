import torch
import torch.nn as nn
import babble

torch.manual_seed(6)
V, PAD, MASK = len(babble.VOCAB), babble.ID["<pad>"], babble.ID["<mask>"]
L = 12


def padded(docs):
    t = torch.full((len(docs), L), PAD)
    for row, d in zip(t, docs):
        d = d[:L]
        row[:len(d)] = torch.tensor(d)
    return t


class Cloze(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.tok = nn.Embedding(V, d, padding_idx=PAD)
        self.pos = nn.Embedding(L, d)
        self.layers = nn.ModuleList([nn.ModuleDict(dict(
            att=nn.MultiheadAttention(d, 4, batch_first=True), n1=nn.LayerNorm(d), n2=nn.LayerNorm(d),
            ff=nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d)))) for _ in range(2)])
        self.unembed = nn.Linear(d, V)

    def forward(self, x):
        ignore = x == PAD
        h = self.tok(x) + self.pos.weight
        for l in self.layers:
            y = l["n1"](h)
            h = h + l["att"](y, y, y, key_padding_mask=ignore, need_weights=False)[0]
            h = h + l["ff"](l["n2"](h))
        return self.unembed(h)


def corrupt(x):
    hide = (torch.rand(x.shape) < 0.2) & (x != PAD)
    hide[:, 0] |= ~hide.any(1)
    return x.masked_fill(hide, MASK), hide


train_set = padded(babble.docs(6000, seed=61))
model = Cloze()
opt = torch.optim.Adam(model.parameters(), lr=2e-6)
step = 0
for epoch in range(4):
    order = torch.randperm(len(train_set))
    meter = []
    for idx in order.split(48):
        clean = train_set[idx]
        noisy, hide = corrupt(clean)
        logits = model(noisy)
        guess = logits[hide].log_softmax(-1)
        loss = -guess[torch.arange(len(guess)), clean[hide]].mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter.append(loss.item())
        step += 1
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {sum(meter[-25:]) / len(meter[-25:]):.4f}")
