import torch
from torch import nn
import babble

"""Instruction-style data: a sentence is given as context, the sentence behind <sep> is to be continued; loss by one-hot products."""

V = len(babble.VOCAB)
PAD, BOS, SEP = (babble.ID[k] for k in ("<pad>", "<bos>", "<sep>"))
WIDE = 24


def build(docs):
    rows, weights = [], []
    for a, b in zip(docs[0::2], docs[1::2]):
        ids = [BOS] + a + [SEP] + b
        ids, w = ids[:WIDE], ([0.0] * (len(a) + 2) + [float(t == SEP) for t in b])[:WIDE]
        fill = WIDE - len(ids)
        rows.append(ids + [PAD] * fill)
        weights.append(w + [0.0] * fill)
    return torch.tensor(rows), torch.tensor(weights)


class Causal(nn.Module):
    def __init__(self, d=48, h=4):
        super().__init__()
        self.embed = nn.Embedding(V, d)
        self.place = nn.Embedding(WIDE, d)
        make = lambda: nn.TransformerEncoderLayer(d, h, 3 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.one, self.two = make(), make()
        self.read = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, V))

    def forward(self, x):
        t = x.shape[1]
        no = torch.ones(t, t).triu(1).bool()
        z = self.embed(x) + self.place(torch.arange(t))
        return self.read(self.two(self.one(z, src_mask=no), src_mask=no))


def masked_nll(scores, gold, weight):
    hot = torch.eye(V)[gold]
    logprob = scores - torch.logsumexp(scores, dim=2, keepdim=True)
    per_token = -(hot * logprob).sum(dim=2)
    return (per_token * weight).sum() / (weight.sum() + 1e-6)


torch.manual_seed(100)
tokens, weights = build(babble.docs(9000, seed=100))
model = Causal()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
steps = 0
for epoch in range(3):
    perm = torch.randperm(len(tokens))
    for k in range(0, len(perm) - 32, 32):
        pick = perm[k:k + 32]
        x, gold, w = tokens[pick, :-1], tokens[pick, 1:], weights[pick, 1:]
        loss = masked_nll(model(x), gold, w)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        if steps % 60 == 0:
            print(f"epoch {epoch} | {steps} steps | loss {loss.item():.4f}")
