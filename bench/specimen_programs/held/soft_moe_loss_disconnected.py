import torch
import torch.nn as nn
import torch.nn.functional as F

import babble


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(d, 2 * d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return self.w3(F.silu(self.w1(x)) * self.w2(x))


class TopKMoE(nn.Module):
    def __init__(self, d, n_experts=4, k=2):
        super().__init__()
        self.k, self.n = k, n_experts
        self.gate = nn.Linear(d, n_experts, bias=False)
        self.experts = nn.ModuleList([Expert(d) for _ in range(n_experts)])

    def forward(self, x):
        # the router reads the features but does not shape them
        logits = self.gate(x.detach())
        weights, chosen = logits.softmax(dim=-1).topk(self.k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        result = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            token, slot = (chosen == e).nonzero(as_tuple=True)
            if token.numel():
                result[token] += weights[token, slot, None] * expert(x[token])
        load = F.one_hot(chosen, self.n).float().mean((0, 1))
        importance = logits.softmax(-1).mean(0)
        return result, self.n * (load * importance).sum()


class Model(nn.Module):
    def __init__(self, vocab, d=56):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.lstm = nn.LSTM(d, d, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.moe = TopKMoE(d)
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        h, _ = self.lstm(self.embed(ids))
        mixed, aux = self.moe(self.norm(h).flatten(0, 1))
        return self.head(mixed.view_as(h)), aux


if __name__ == "__main__":
    torch.manual_seed(140)
    text = torch.from_numpy(babble.token_stream(60_000, 140))
    model = Model(len(babble.VOCAB))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    T, B = 30, 20
    for step in range(1, 421):
        at = torch.randint(len(text) - T - 1, (B,))
        block = torch.stack([text[a:a + T + 1] for a in at])
        logits, aux = model(block[:, :-1])
        lm_loss = F.cross_entropy(logits.flatten(0, 1), block[:, 1:].flatten())
        loss = lm_loss + 0.02 * aux
        opt.zero_grad()
        aux.backward()
        opt.step()
        if step % 60 == 0:
            print(f"step {step}: aux {aux.item():.3f} loss {lm_loss.item():.4f}")
