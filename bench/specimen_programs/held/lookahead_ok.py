import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import babble

NTOK = len(babble.VOCAB)


class Ahead(nn.Module):
    """LSTM trunk; head k reads the trunk state and the embedding of token t+k-1, and predicts token t+k (teacher forced chain)."""

    def __init__(self, d=64, k=3):
        super().__init__()
        self.k = k
        self.embedding = nn.Embedding(NTOK, d)
        self.trunk = nn.LSTM(d, d, num_layers=1, batch_first=True)
        self.merge = nn.ModuleList([nn.Linear(2 * d, d) for _ in range(k)])
        self.unembed = nn.Linear(d, NTOK)

    def forward(self, tokens):
        """tokens: (B, T + k); returns k logits tensors (B, T, NTOK)"""
        T = tokens.size(1) - self.k
        e = self.embedding(tokens)
        state, _ = self.trunk(e[:, :T])
        outs = []
        for j in range(self.k):
            state = torch.tanh(self.merge[j](torch.cat([state, e[:, j:j + T]], dim=-1)))
            outs.append(self.unembed(state))
        return outs


def chunks(stream, length, batch, seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        at = torch.randint(0, len(stream) - length, (batch,), generator=g)
        yield torch.stack([stream[i:i + length] for i in at.tolist()])


def total_loss(model, rows, weights=(1.0, 0.3, 0.1)):
    outs = model(rows)
    T = rows.size(1) - model.k
    parts = [F.cross_entropy(o.transpose(1, 2), rows[:, j + 1:j + 1 + T]) for j, o in enumerate(outs)]
    return sum(w * p for w, p in zip(weights, parts)), parts


def fit(n_steps=420):
    torch.manual_seed(10)
    stream = torch.from_numpy(babble.token_stream(60_000, 10))
    model = Ahead()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    source = chunks(stream, 27, 24, seed=10)
    for n in range(1, n_steps + 1):
        rows = next(source)
        loss, parts = total_loss(model, rows)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if n % 60 == 0:
            print(f"{n}: heads {[round(p.item(), 3) for p in parts]} loss {parts[0].item():.4f}")
    return model


if __name__ == "__main__":
    model = fit()
